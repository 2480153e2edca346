/** A map that components follow as they follow a signal, and that is kept in order. It changes in place: to copy or sort 10,000
 * sessions because one of them has changed takes longer than to draw it. Nobody may take the map itself for a sign that nothing
 * has changed. */
import { signal } from '@preact/signals'

/** How many values something holds of. Of a change only the changed value is looked at. */
export class MapCount<T extends { readonly id: string }> {
  private readonly ids = new Set<string>()
  private readonly size = signal(0)

  constructor(private readonly map: MapSignal<T>, private readonly holds: (item: T) => boolean) {
    this.recount()
  }

  get value(): number {
    return this.size.value
  }

  /** What holds may be something else now. */
  recount(): void {
    this.ids.clear()
    for (const item of this.map.peek().values()) if (this.holds(item)) this.ids.add(item.id)
    this.size.value = this.ids.size
  }

  /** The value is another one now, or gone. */
  note(id: string, item: T | undefined): void {
    if (item && this.holds(item)) this.ids.add(id)
    else this.ids.delete(id)
    this.size.value = this.ids.size
  }
}

export class MapSignal<T extends { readonly id: string }> {
  private readonly version = signal(0)
  private map = new Map<string, T>()
  private order: T[] = []
  private readonly counts: MapCount<T>[] = []

  /** `compare` tells any two different values apart. */
  constructor(private readonly compare: (item: T, other: T) => number) {}

  get value(): ReadonlyMap<string, T> {
    void this.version.value // whoever reads it is told of the next change
    return this.map
  }

  peek(): ReadonlyMap<string, T> {
    return this.map
  }

  /** All values in order; another array after each change. */
  inOrder(): readonly T[] {
    void this.version.value
    return this.order.slice()
  }

  /** Some of them, in order. */
  sort(some: readonly T[]): readonly T[] {
    return [...some].sort(this.compare)
  }

  count(holds: (item: T) => boolean): MapCount<T> {
    const count = new MapCount(this, holds)
    this.counts.push(count)
    return count
  }

  upsert(item: T): void {
    this.takeOut(item.id)
    this.map.set(item.id, item)
    this.order.splice(this.placeOf(item), 0, item)
    this.tell(item.id, item)
  }

  remove(id: string): void {
    if (!this.map.has(id)) return
    this.takeOut(id)
    this.map.delete(id)
    this.tell(id, undefined)
  }

  replace(all: Iterable<T>): void {
    this.order = [...all].sort(this.compare) // what is nearly in order is sorted again quickly
    this.map = new Map(this.order.map((item) => [item.id, item]))
    for (const count of this.counts) count.recount()
    this.version.value++
  }

  private takeOut(id: string): void {
    const before = this.map.get(id)
    if (before) this.order.splice(this.placeOf(before), 1)
  }

  /** Where it is, or where it belongs. */
  private placeOf(item: T): number {
    let low = 0
    let high = this.order.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.compare(this.order[middle]!, item) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  private tell(id: string, item: T | undefined): void {
    for (const count of this.counts) count.note(id, item)
    this.version.value++
  }
}
