"""The part of the client about schedules."""

from msgspec.structs import replace

from ..ids import new_id
from ..protocol.schedules import NewSchedule, ScheduleChange, ScheduleRun, ScheduleTimes, ScheduleView
from .api_requests import ApiRequests


class SchedulesApi(ApiRequests):
    async def schedules(self) -> list[ScheduleView]:
        """By name, each with its next time and its last run."""
        return await self.get("schedules", list[ScheduleView])

    async def schedule(self, id: str) -> ScheduleView:
        """With its coming times and its runs, the newest first."""
        return await self.get(f"schedules/{id}", ScheduleView)

    async def schedule_times(
        self, *, cron: str = "", once: str = "", zone: str = "UTC", count: int = 3
    ) -> ScheduleTimes:
        """The coming times of a schedule that is not added yet."""
        return await self.get("schedule-times", ScheduleTimes, cron=cron, once=once, zone=zone, count=count)

    async def add_schedule(self, new: NewSchedule) -> ScheduleView:
        if not new.id:
            new = replace(new, id=new_id())
        return await self.change("POST", "schedules", ScheduleView, new, key=new.id)

    async def change_schedule(self, id: str, change: ScheduleChange) -> ScheduleView:
        return await self.change("PATCH", f"schedules/{id}", ScheduleView, change)

    async def remove_schedule(self, id: str) -> ScheduleView:
        """As it was. What it started goes on."""
        return await self.change("DELETE", f"schedules/{id}", ScheduleView)

    async def run_schedule(self, id: str) -> ScheduleRun:
        """Run it now."""
        return await self.change("POST", f"schedules/{id}/run", ScheduleRun)
