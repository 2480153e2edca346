/** Where a schedule is: its page, and its path in the API. */
export const scheduleUrl = (id: string): string => `/schedules/${encodeURIComponent(id)}`
export const schedulePath = (id: string): string => `schedules/${encodeURIComponent(id)}`
