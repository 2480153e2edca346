/** Line icons as inline SVG in the text's colour. */
const PATHS: Record<string, string> = {
  command: 'M4 6l5 5-5 5M11 17h8',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  read: 'M7 3h7l5 5v13H7zM14 3v5h5',
  search: 'M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5L21 21',
  fetch: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18',
  mcp: 'M9 3v6M15 3v6M6 9h12v3a6 6 0 0 1-12 0zM12 18v3',
  task: 'M6 4v10a4 4 0 0 0 4 4h8M18 18l-3-3M18 18l-3 3M6 8h8',
  other: 'M12 8v4l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z',
  check: 'M5 12.5l4.5 4.5L19 7',
  cross: 'M6 6l12 12M18 6L6 18',
  send: 'M5 12h13M12 5l7 7-7 7',
  stop: 'M7 7h10v10H7z',
  steer: 'M12 4v16M12 4l-4 4M12 4l4 4M5 20h14',
  pause: 'M8 6v12M16 6v12',
  play: 'M8 5l11 7-11 7z',
  plus: 'M12 5v14M5 12h14',
  back: 'M15 5l-7 7 7 7',
  down: 'M12 5v14M6 13l6 6 6-6',
  chevron: 'M9 6l6 6-6 6',
  up: 'M6 15l6-6 6 6',
  settings: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4',
  sessions: 'M4 5h16v11H9l-5 4z',
  members: 'M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM3 20a6 6 0 0 1 12 0M16 6a3 3 0 0 1 0 6M17 15a5 5 0 0 1 4 5',
  message: 'M4 6h16v12H4zM4 7l8 6 8-6',
  inbox: 'M4 13l3-8h10l3 8v6H4zM4 13h5l1 3h4l1-3h5',
  dead: 'M12 4l9 16H3zM12 10v4M12 17v.5',
  channel: 'M5 12a10 10 0 0 1 14 0M8 15a6 6 0 0 1 8 0M12 19v.1M3 8.5a14 14 0 0 1 18 0',
  bell: 'M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4',
  machine: 'M4 5h16v10H4zM2 19h20',
  phone: 'M8 3h8v18H8zM11 18h2',
  diff: 'M12 4v8M8 8h8M8 18h8',
  clip: 'M8 12l6-6a3 3 0 0 1 4 4l-8 8a5 5 0 0 1-7-7l7-7',
  clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3 2',
  warn: 'M12 4l9 16H3zM12 10v4M12 17v.5',
  thinking: 'M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.6.5.9 1.2 1 2.1h5c.1-.9.4-1.6 1-2.1A6 6 0 0 0 12 3z',
  list: 'M4 6l1.5 1.5L8 5M11 6.5h9M4 12l1.5 1.5L8 11M11 12.5h9M4 18l1.5 1.5L8 17M11 18.5h9',
  folder: 'M3 6h6l2 2h10v11H3z',
  more: 'M5 11.5a.5.5 0 1 0 0 1a.5.5 0 1 0 0-1M12 11.5a.5.5 0 1 0 0 1a.5.5 0 1 0 0-1M19 11.5a.5.5 0 1 0 0 1a.5.5 0 1 0 0-1',
  copy: 'M8 8h11v12H8zM5 16V4h11',
  minus: 'M6 12h12',
  keyboard: 'M3 6h18v12H3zM7 10h.1M11 10h.1M15 10h.1M18 10h.1M7 14h10',
  pin: 'M9 4h6l-1 6 4 3H6l4-3zM12 13v7',
  usage: 'M4 20V11M10 20V4M16 20v-7M21 20H3',
  undo: 'M9 6L4 11l5 5M4 11h10a6 6 0 0 1 0 12h-2',
  retry: 'M19 12a7 7 0 1 1-2-5M19 3v4h-4',
}

export function Icon({ name, label }: { name: string; label?: string }) {
  const path = PATHS[name] ?? PATHS.other!
  return (
    <svg class="icon" viewBox="0 0 24 24" role={label ? 'img' : undefined} aria-label={label} aria-hidden={label ? undefined : 'true'}>
      <path d={path} />
    </svg>
  )
}
