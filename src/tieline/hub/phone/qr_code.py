"""A link as a picture that a phone's camera reads."""


def qr_code(url: str) -> str:
    """A data URI. On white, so that it is readable also on a dark page."""
    import segno

    return segno.make(url, error="l", micro=False).svg_data_uri(border=4, light="white", omitsize=True)
