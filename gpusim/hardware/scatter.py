"""A fixed hash: what real memory spreads by address bits is spread here by the number of a tile."""


def scattered(key: int) -> int:
    """A whole number from 0 to 2³² − 1 that looks random and depends on `key` (below 2³²) alone.

    Two rounds of shift and multiplication; the factor is small enough for products to fit 64 bits with their sign.
    """
    mixed: int = (((key >> 16) ^ key) * 0x45D9F3B) & 0xFFFFFFFF
    mixed = (((mixed >> 16) ^ mixed) * 0x45D9F3B) & 0xFFFFFFFF
    return (mixed >> 16) ^ mixed
