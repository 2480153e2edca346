"""Where a record goes that nobody could settle, and what is said of it there."""

from .base import Record, clean_reason


def dead_subject(group: str, subject: str) -> str:
    return f"dead.{group}.{subject}"


def dead_headers(record: Record, group: str, attempt: int, reason: str) -> dict[str, str]:
    """The record's own, and why it is dead."""
    own = {name: value for name, value in record.headers.items() if not name.startswith("Tieline-")}
    return own | {
        "Tieline-Reason": clean_reason(reason) or "no reason given",
        "Tieline-Group": group,
        "Tieline-Subject": record.subject,
        "Tieline-Seq": str(record.seq),
        "Tieline-Deliveries": str(attempt),
    }
