"""What a report shows together."""

from gpusim.report.panels import panels_of

# What a point of a product lacks of attention.
_ABSENT = ("pass_", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim", "head_dim_v", "causal", "dropout", "mask")
PRODUCT = {"batch": 1, "window": None, "save_lse": None, **dict.fromkeys(_ABSENT)}


def test_one_sweep_is_one_panel_with_a_place_for_every_length(make_point):
    """Two schedules at three lengths: one panel, three places in order, two series of three points."""
    points = [make_point(name, seqlen) for name in ("flash1", "flash2") for seqlen in (1024, 512, 2048)]
    (panel,) = panels_of(points)
    assert ("512", "1,024", "2,048") == tuple(place.label for place in panel.places)
    assert [("flash1", (1, 0, 2)), ("flash2", (4, 3, 5))] == [(line.name, line.numbers) for line in panel.series]
    assert "N = 1,024" == panel.at(1)


def test_gpus_masks_and_head_dims_are_panels_of_their_own(make_point):
    """Two GPUs, causal or not: four panels, each named by what tells it from the others."""
    points = [
        make_point(seqlen=seqlen, gpu=gpu, causal=causal)
        for gpu in ("a100", "h100")
        for causal in (False, True)
        for seqlen in (512, 1024)
    ]
    expected = ["a100, not causal", "a100, causal", "h100, not causal", "h100, causal"]
    assert expected == [panel.title for panel in panels_of(points)]


def test_what_was_set_on_a_gpu_makes_a_panel_of_its_own(make_point):
    """As another GPU would, named by what was set."""
    points = [make_point(seqlen=seqlen, overrides=text) for text in (None, "sm.clock_hz=1e9") for seqlen in (512, 1024)]
    panels = panels_of(points)
    assert ["a100_sxm4_40gb", "a100_sxm4_40gb with sm.clock_hz=1e9"] == [panel.gpu for panel in panels]
    assert ["a100_sxm4_40gb", "a100_sxm4_40gb with sm.clock_hz=1e9"] == [panel.title for panel in panels]


def test_a_batch_that_follows_the_length_splits_nothing(make_point):
    """At a constant number of tokens every length has one batch, so the line stays whole."""
    points = [make_point(seqlen=seqlen, batch=16384 // seqlen) for seqlen in (512, 1024, 2048)]
    (panel,) = panels_of(points)
    assert [(0, 1, 2)] == [line.numbers for line in panel.series]


def test_batches_at_one_length_are_panels_of_sizes(make_point):
    """Three lengths at two batches: the length has more values, so it is the axis and each batch a panel."""
    points = [make_point(seqlen=seqlen, batch=batch) for batch in (1, 8) for seqlen in (512, 1024, 2048)]
    assert ["batch 1", "batch 8"] == [panel.title for panel in panels_of(points)]


def test_what_varies_most_is_the_axis(make_point):
    """A sweep of head dims, batches or clocks at one length is drawn against head dim, batch or clock."""
    swept = {"head_dim": (64, 96, 128), "batch": (1, 2, 4), "sm_clock_mhz": (1000.0, 1200.0, 1410.0)}
    labels = {"head_dim": "head dimension d", "batch": "batch", "sm_clock_mhz": "SM clock, MHz"}
    for field, values in swept.items():
        (panel,) = panels_of([make_point(**{field: value}) for value in values])
        assert labels[field] == panel.axis.label
        assert list(values) == [place.x for place in panel.places]


def test_tiles_of_one_schedule_are_series_named_by_what_differs(make_point):
    """Two custom tiles of one schedule: the name says the tile and leaves out what is equal."""
    points = [make_point("custom", 512, schedule="flash2", tile_q=tile, tile_kv=64, stages=1) for tile in (64, 128)]
    (panel,) = panels_of(points)
    assert ["flash2 tile_q=64", "flash2 tile_q=128"] == [line.name for line in panel.series]


def test_a_missing_point_leaves_a_gap(make_point):
    """A length that one series lacks is a place without a point there."""
    points = [make_point("flash1", 512), make_point("flash2", 512), make_point("flash2", 1024)]
    (panel,) = panels_of(points)
    assert [(0, None), (1, 2)] == [line.numbers for line in panel.series]


def test_kinds_of_work_are_panels_of_their_own(make_point):
    """A comparison may hold attention and products: each has its own panel and axis."""
    points = [make_point("flash2", 512), make_point("flash2", 1024)]
    points += [make_point("torch_matmul", 1, **PRODUCT | {"m": m, "n": 64, "k": 64}) for m in (128, 256, 512)]
    attention, product = panels_of(points)
    assert ("sequence length N, tokens", "rows of the product, M") == (attention.axis.label, product.axis.label)
    assert "a matrix product, fp16, batch 1, n 64, k 64, timed by event, warm L2" == product.setting


def test_products_of_many_shapes_stand_at_their_flops(make_point):
    """m and n both vary, so no line joins them: every shape is a place, smallest first, at 2·m·n·k FLOPs."""
    points = [
        make_point("torch_matmul", 1, **PRODUCT | {"m": m, "n": n, "k": 64, "flops": 2 * m * n * 64})
        for m in (128, 256)
        for n in (512, 1024)
    ]
    (panel,) = panels_of(points)
    assert not panel.axis.is_line
    assert ["128×512×64", "128×1,024×64", "256×512×64", "256×1,024×64"] == [place.label for place in panel.places]
    assert [2 * 128 * 512 * 64, 2 * 128 * 1024 * 64] == [place.x for place in panel.places[:2]]
