/** A map in order: what changes is put into its place without looking at all the others. */
import { effect } from '@preact/signals'
import { expect, it } from 'vitest'
import { MapSignal } from '../src/store/map-signal'

interface Item { readonly id: string; readonly at: number }
let compared = 0
const compare = (one: Item, other: Item) => {
  compared++
  return other.at - one.at || (one.id < other.id ? -1 : 1)
}
const items = (count: number): Item[] => Array.from({ length: count }, (_, index) => ({ id: `i${index}`, at: index }))
const sorted = (all: readonly Item[]) => [...all].sort((one, other) => other.at - one.at || (one.id < other.id ? -1 : 1))

it('stays in order while values come, change and go', () => {
  const map = new MapSignal<Item>(compare)
  map.replace(items(5))
  const seen: string[] = []
  effect(() => { seen.push(map.inOrder().map((one) => one.id).join(' ')) })
  map.upsert({ id: 'i1', at: 9 })
  map.upsert({ id: 'new', at: 3 })
  map.upsert({ id: 'i4', at: 4 }) // its place stays
  map.remove('i3')
  map.remove('i3')
  expect(seen).toEqual(['i4 i3 i2 i1 i0', 'i1 i4 i3 i2 i0', 'i1 i4 i3 new i2 i0', 'i1 i4 i3 new i2 i0', 'i1 i4 new i2 i0'])
  expect([...map.peek().keys()].sort()).toEqual(['i0', 'i1', 'i2', 'i4', 'new'])
})

it('puts one of 10,000 into its place with a few comparisons', () => {
  const map = new MapSignal<Item>(compare)
  map.replace(items(10_000))
  compared = 0
  for (const [id, at] of [['i5000', 20_000], ['i5000', -1], ['i5000', 4999.5], ['i0', 77], ['more', 3]] as const) map.upsert({ id, at })
  expect(compared).toBeLessThan(5 * 40)
  const all = map.inOrder()
  expect(all).toEqual(sorted(all))
  expect(all).toHaveLength(10_001)
})

it('counts again only what has changed', () => {
  const map = new MapSignal<Item>(compare)
  map.replace(items(10_000))
  let looked = 0
  let least = 5000
  const count = map.count((one) => { looked++; return one.at >= least })
  expect([count.value, looked]).toEqual([5000, 10_000])
  map.upsert({ id: 'i0', at: 5001 })
  map.upsert({ id: 'i9999', at: 1 })
  map.upsert({ id: 'new', at: 6000 })
  map.remove('i5000')
  expect([count.value, looked]).toEqual([5000, 10_003])
  least = 20_000
  count.recount()
  expect(count.value).toBe(0)
  map.replace([{ id: 'one', at: 30_000 }])
  expect(count.value).toBe(1)
})
