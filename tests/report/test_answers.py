"""What a report says in words."""

from gpusim.report.answers import Measurement, answer, case_of, facts, overall_answer, trust_of
from gpusim.report.panels import panels_of
from gpusim.specs import load_gpu

A100 = load_gpu("a100_sxm4_40gb")


def case(points, measured=()):
    """The one case of these points, on an A100."""
    (panel,) = panels_of(points)
    return case_of(panel, points, measured, A100)


def naive(make_point, seqlen, **fields):
    """Eager attention, four times as slow as `make_point`'s flash2."""
    answers = {"latency_ms": 4 * seqlen / 1000, "hbm_read_bytes": 6000 * seqlen, "hbm_write_bytes": 4240 * seqlen}
    return make_point("pytorch_naive", seqlen, **{"schedule": "naive"} | answers | fields)


def test_the_answer_says_which_by_how_much_and_what_bounds_it(make_point):
    """flash2 takes 1.024 ms of naive's 4.096 and moves 1,024 B a token of naive's 10,240."""
    points = [naive(make_point, 1024), make_point("flash2", 1024, bottleneck="hbm")]
    assert (
        "At N = 1,024 flash2 takes 1.02 ms where pytorch_naive takes 4.10 ms: 4.0 times faster, bound by HBM "
        "bandwidth; it moves 1.05 MB over HBM instead of 10.5 MB."
    ) == answer(case(points))


def test_the_answer_is_given_where_both_ran(make_point, make_refusal):
    """Where the baseline ran out of memory nothing can be compared, so the answer is about the place before."""
    points = [naive(make_point, 1024), make_point("flash2", 1024), make_point("flash2", 2048)]
    points.append(make_refusal("pytorch_naive", 2048, schedule="naive", status="out_of_memory"))
    assert answer(case(points)).startswith("At N = 1,024 ")


def test_a_baseline_that_wins_is_said_to_win(make_point):
    """Where eager attention is fastest the answer says so, and how much longer the next takes."""
    points = [naive(make_point, 1024, latency_ms=0.5, bottleneck="launch"), make_point("flash2", 1024)]
    expected = (
        "At N = 1,024 pytorch_naive is fastest with 0.500 ms, bound by its launches; flash2 takes 2.0 times as long."
    )
    assert expected == answer(case(points))


def test_one_series_alone_is_set_against_the_peak(make_point):
    """Half the time at the dense peak is half the peak."""
    points = [make_point(seqlen=1024, tflops=156.0, ceiling_ms=0.512, bottleneck="l2")]
    assert (
        "At N = 1,024 flash2 takes 1.02 ms on NVIDIA A100 SXM4 40GB: 156 TFLOP/s, 50 % of the dense peak, bound by L2 "
        "bandwidth."
    ) == answer(case(points))


def test_nothing_simulated_is_said_with_the_reason(make_refusal):
    """A refused point has no answer but its reason."""
    assert "Nothing was simulated: needs 208 of 96 numbers." == answer(case([make_refusal()]))


def test_what_does_not_fit_is_said_with_both_sizes(make_point, make_refusal):
    """Out of memory comes with the bytes needed and the bytes there are."""
    points = [naive(make_point, 1024), make_point("flash2", 1024), make_point("flash2", 2048)]
    points.append(
        make_refusal("pytorch_naive", 2048, schedule="naive", status="out_of_memory", peak_memory_bytes=139 * 10**9)
    )
    fits = dict(facts(case(points)))["Does it fit?"]
    assert fits.startswith("flash2 ran at every N. pytorch_naive is out of memory at N = 2,048: it needs 139 GB, ")


def test_time_at_and_before_the_compute_pipe_is_told_together(make_point):
    """50 % computing and 30 % waiting for others to compute are 80 % at the compute pipe."""
    stalls = {"compute": 0.5, "pipe": 0.3, "load": 0.15, "sync": 0.05, "store": 0.0, "launch": 0.0, "idle": 0.0}
    slow = dict(facts(case([make_point(stalls=stalls)])))["Why is it slow?"]
    assert "80 % of its CTAs' time at the compute pipe and 15 % waiting for tiles" in slow


def test_errors_are_of_the_measured_latency(make_point):
    """1.024 ms simulated against 0.8 and 1.28 ms measured is +28 % and −20 %: mean |error| 24 %, bias +4 %."""
    points = [make_point(seqlen=1024)]
    measured = [Measurement(0, 0.8, "paper", "held_out"), Measurement(0, 1.28, "paper", "held_out")]
    (trust,) = trust_of(case(points, measured))
    assert (2, 0.24, 0.04, 0.28) == (trust.n, round(trust.mean_ape, 6), round(trust.bias, 6), round(trust.worst, 6))
    said = dict(facts(case(points, measured)))["How far to trust it?"]
    assert "Against 2 measured points the mean |error| is 24.0 %; the worst is +28.0 %, flash2 at N = 1,024." == said


def test_errors_of_series_that_were_not_fitted_stand_apart(make_point):
    """Two points off by 10 % that a fit saw, one off by 28 % that it did not."""
    points = [make_point("flash1", 1100), make_point("flash1", 2200), make_point("flash2", 1024)]
    measured = [Measurement(0, 1.0, "paper", "fitted"), Measurement(1, 2.0, "paper", "fitted")]
    measured.append(Measurement(2, 0.8, "paper", "held_out"))
    said = dict(facts(case(points, measured)))["How far to trust it?"]
    assert "the mean |error| is 16.0 % (those not used to fit: 28.0 %)" in said


def test_no_band_is_said_with_its_reason(make_point):
    """A series without measurement and band says what was measured instead."""
    reason = "not validated for fp32; measured: fp16, bf16"
    said = dict(facts(case([make_point(validated=False, validation=reason)])))["How far to trust it?"]
    assert f"flash2 has no measurement here and no error band: {reason}." == said


def test_a_band_that_some_points_of_a_series_have_is_said_with_their_number(make_point):
    """Two of three lengths were measured, the widest band of 7 %."""
    bands = {512: False, 1024: 0.05, 2048: 0.07}
    points = [make_point(seqlen=n, validated=band, validation=f"rows of {n}") for n, band in bands.items()]
    said = dict(facts(case(points)))["How far to trust it?"]
    assert "flash2 has no measurement here and an error band of ±7.0 % at 2 of 3 points (rows of 2048)." == said


def test_several_gpus_are_told_in_one_sentence(make_point):
    """Four times faster on one GPU and eight times on the other."""
    points = [naive(make_point, 1024), make_point("flash2", 1024)]
    points += [
        naive(make_point, 1024, gpu="h100_sxm5_80gb"),
        make_point("flash2", 1024, gpu="h100_sxm5_80gb", latency_ms=0.512),
    ]
    cases = [case_of(panel, points, (), load_gpu(panel.gpu)) for panel in panels_of(points)]
    assert (
        "flash2 is the fastest on 2 GPUs (1.02 ms on NVIDIA A100 SXM4 40GB at N = 1,024 and 0.512 ms on NVIDIA H100 "
        "SXM5 80GB at N = 1,024): 4.0 to 8.0 times faster than pytorch_naive."
    ) == overall_answer(cases)
