/** The levels that the agent has names for; nothing for one that has none. */
export function EffortSelect({ label = 'Effort', levels, value, onChange }: { label?: string; levels: readonly string[]; value: string; onChange: (level: string) => void }) {
  if (!levels.length) return null
  return (
    <label>{label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">The agent’s own choice</option>
        {[...new Set([...levels, ...(value ? [value] : [])])].map((level) => <option key={level} value={level}>{level}</option>)}
      </select>
    </label>
  )
}
