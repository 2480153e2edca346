/** A virtual list for long conversations: only rows near the viewport are in the document.
 *
 * Rows are grouped by their number; a group far away is an empty box of its last height. Nothing jumps: the visible rows stay
 * in place when rows are inserted above or change their height, and the list stays at the bottom until the person scrolls up.
 * A decision in view that waits for the person (`[data-waits]`) stays where it is, whatever comes above or below it.
 */
import { Component, createRef, type ComponentChildren } from 'preact'
import { pauseCardButtons } from '../store/store'
import { Icon } from '../ui/icons'

const GROUP_SIZE = 24
const OVERSCAN = 1500 // pixels beyond the viewport that stay in the document
const ESTIMATED_ROW = 56 // pixels of a row that was never rendered
const BOTTOM_TOLERANCE = 48
const STILL = 2 // pixels that are no move
const LOAD_OLDER_AT = 1600 // pixels from the top at which older events are loaded

/** Where a decision is on the screen: of the box, and of the whole page. */
interface Place {
  readonly top: number // below the top of the box
  readonly gap: number // from its end to the end of the box; negative: its buttons are out of sight
  readonly bottom: number
  readonly height: number
}

interface Anchor {
  readonly element: HTMLElement
  readonly key: string
  readonly top: number
}

/** Numbers of rows that follow each other grow by one, and stay. */
interface ListRow {
  readonly key: string
  readonly number: number
}

interface Props<T extends ListRow> {
  readonly items: readonly T[]
  readonly row: (item: T) => ComponentChildren
  readonly onTop: () => void
  readonly marked?: string // the key of a row that is scrolled to, once
  readonly children?: ComponentChildren // after the last row
}

export function groupItems<T extends ListRow>(items: readonly T[]): Map<number, T[]> {
  const byGroup = new Map<number, T[]>()
  for (const item of items) {
    const id = Math.floor(item.number / GROUP_SIZE)
    const group = byGroup.get(id)
    if (group) group.push(item)
    else byGroup.set(id, [item])
  }
  return byGroup
}

const sizeOf = (box: HTMLElement): string => `${box.clientHeight} ${box.scrollHeight}`

export class VirtualList<T extends ListRow> extends Component<Props<T>, { readonly near: ReadonlySet<number>; readonly away: boolean }> {
  override state = { near: new Set<number>(), away: false }
  private box = createRef<HTMLDivElement>()
  private inner = createRef<HTMLDivElement>()
  private heights = new Map<number, number>()
  private elements = new Map<number, Element>()
  private pinnedToBottom = true
  private scrollTop = 0
  private waiting = new Map<string, Place>() // the decisions in view, when they were last seen
  private size = '' // of the box and its content, when they were last seen
  private scrolledByHand = false
  private scrolledTo = ''
  private intersectionObserver: IntersectionObserver | undefined
  private resizeObserver: ResizeObserver | undefined

  override componentDidMount(): void {
    const box = this.box.current!
    this.intersectionObserver = new IntersectionObserver((entries) => this.onIntersection(entries), { root: box, rootMargin: `${OVERSCAN}px 0px` })
    this.resizeObserver = new ResizeObserver((entries) => this.onResize(entries))
    this.resizeObserver.observe(this.inner.current!)
    this.resizeObserver.observe(box)
    for (const element of this.elements.values()) this.observe(element)
    this.scrollToBottom()
    this.scrollToMarked()
  }

  override componentWillUnmount(): void {
    this.intersectionObserver?.disconnect()
    this.resizeObserver?.disconnect()
  }

  /** The first visible row, or its group when the row is not rendered yet. */
  override getSnapshotBeforeUpdate(): Anchor | null {
    if (this.pinnedToBottom || this.held()) return null
    const edge = this.box.current!.getBoundingClientRect().top
    let fallback: Anchor | null = null
    for (const group of this.inner.current!.querySelectorAll<HTMLElement>('[data-group]')) {
      const bounds = group.getBoundingClientRect()
      if (bounds.bottom <= edge) continue
      fallback ??= { element: group, key: '', top: bounds.top }
      for (const row of group.querySelectorAll<HTMLElement>('[data-row]')) {
        const own = row.getBoundingClientRect()
        if (own.bottom > edge) return { element: row, key: row.dataset.row!, top: own.top }
      }
    }
    return fallback
  }

  override componentDidUpdate(_: Props<T>, __: unknown, anchor: Anchor | null): void {
    const same = anchor?.element.isConnected ? anchor.element : anchor && this.inner.current!.querySelector<HTMLElement>(`[data-row="${CSS.escape(anchor.key)}"]`)
    this.settle(same ? same.getBoundingClientRect().top - anchor!.top : 0)
    this.scrollToMarked()
    // Measure rendered rows now: the observer corrects only later changes.
    for (const [id, element] of this.elements) this.heights.set(id, element.getBoundingClientRect().height)
  }

  private observe(element: Element): void {
    this.intersectionObserver?.observe(element)
    this.resizeObserver?.observe(element)
  }

  private createRefCallback = (id: number) => (element: HTMLDivElement | null) => {
    const known = this.elements.get(id)
    if (known === element) return
    if (known) {
      this.intersectionObserver?.unobserve(known)
      this.resizeObserver?.unobserve(known)
      this.elements.delete(id)
    }
    if (element) {
      this.elements.set(id, element)
      this.observe(element)
    }
  }
  private refCallbacks = new Map<number, (element: HTMLDivElement | null) => void>()
  private refCallback(id: number): (element: HTMLDivElement | null) => void {
    const known = this.refCallbacks.get(id)
    if (known) return known
    const callback = this.createRefCallback(id)
    this.refCallbacks.set(id, callback)
    return callback
  }

  private onIntersection(entries: readonly IntersectionObserverEntry[]): void {
    const near = new Set(this.state.near)
    for (const entry of entries) {
      const id = Number((entry.target as HTMLElement).dataset.group)
      if (entry.isIntersecting) near.add(id)
      else if (this.heights.has(id)) near.delete(id)
    }
    if (near.size !== this.state.near.size || [...near].some((id) => !this.state.near.has(id))) this.setState({ near })
  }

  private onResize(entries: readonly ResizeObserverEntry[]): void {
    const box = this.box.current!
    const edge = box.getBoundingClientRect().top
    let shift = 0
    let grown = 0 // height added by the groups above
    const groups = entries.map((entry) => entry.target as HTMLElement).filter((element) => element.dataset.group !== undefined)
    for (const element of groups.sort((group, other) => Number(group.dataset.group) - Number(other.dataset.group))) {
      const id = Number(element.dataset.group)
      const bounds = element.getBoundingClientRect()
      const more = bounds.height - (this.heights.get(id) ?? bounds.height)
      this.heights.set(id, bounds.height)
      grown += more
      if (bounds.bottom - grown <= edge) shift += more
    }
    this.settle(shift)
    this.size = sizeOf(box)
  }

  private waitingCards = (): HTMLElement[] => [...this.inner.current!.querySelectorAll<HTMLElement>('[data-waits]')]

  /** The decision that stays where it is: the one that has the focus, else the first in view with its buttons. */
  private held(): HTMLElement | undefined {
    if (!this.waiting.size) return undefined
    const cards = this.waitingCards().filter((card) => (this.waiting.get(card.dataset.waits!)?.gap ?? -1) >= 0)
    return cards.find((card) => card.contains(document.activeElement)) ?? cards[0]
  }

  /** After a change of the rows or of the box. `shift`: by how much the rows in view were moved. */
  private settle(shift: number): void {
    const card = this.held()
    if (card) {
      const before = this.waiting.get(card.dataset.waits!)!
      const [bounds, own] = [this.box.current!.getBoundingClientRect(), card.getBoundingClientRect()]
      if (own.height > bounds.height && before.height <= bounds.height && own.height > before.height + STILL) {
        this.pinnedToBottom = false // it has become longer than the box: it is to be read from its beginning
        this.scrollBy(own.top - bounds.top - before.top)
      } else this.scrollBy((own.height > bounds.height ? before.gap : Math.min(before.gap, bounds.height - own.height)) - (bounds.bottom - own.bottom))
    } else if (this.pinnedToBottom) this.scrollToBottom()
    else this.scrollBy(shift)
    this.seeWaiting(true)
  }

  /** `moves`: what was done to the list, and not by the person, may have moved them. A tap on its way was meant for another place. */
  private seeWaiting(moves: boolean): void {
    const bounds = this.box.current!.getBoundingClientRect()
    const before = this.waiting
    this.waiting = new Map()
    for (const card of this.waitingCards()) {
      const { top, bottom, height } = card.getBoundingClientRect()
      if (bottom <= bounds.top || top >= bounds.bottom) continue
      if (moves && !(Math.abs((before.get(card.dataset.waits!)?.bottom ?? Infinity) - bottom) < STILL)) pauseCardButtons()
      this.waiting.set(card.dataset.waits!, { top: top - bounds.top, gap: bounds.bottom - bottom, bottom, height })
    }
    this.showAway()
  }

  private showAway(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.box.current!
    const away = !this.pinnedToBottom || (this.waiting.size > 0 && scrollHeight - scrollTop - clientHeight >= BOTTOM_TOLERANCE)
    if (this.state.away !== away) this.setState({ away })
  }

  private scrollBy(by: number): void {
    if (!by) return
    this.box.current!.scrollTop += by
    this.scrollTop = this.box.current!.scrollTop
  }

  private scrollToBottom(): void {
    const box = this.box.current!
    box.scrollTop = box.scrollHeight
    this.scrollTop = box.scrollTop
    this.pinnedToBottom = true
    this.showAway()
  }

  private jumpToBottom = (): void => {
    this.scrollToBottom()
    this.seeWaiting(false)
  }

  /** Shows the marked row in the middle and gives it the focus; the list stays there until the person scrolls. */
  private scrollToMarked(): void {
    const { marked = '' } = this.props
    if (marked === this.scrolledTo) return
    const row = this.inner.current!.querySelector<HTMLElement>(`[data-row="${CSS.escape(marked)}"]`)
    if (marked && !row) return
    this.scrolledTo = marked
    if (!row) return
    this.pinnedToBottom = false
    row.scrollIntoView({ block: 'center' })
    this.scrollTop = this.box.current!.scrollTop
    row.focus({ preventScroll: true })
    this.seeWaiting(false)
  }

  private onHand = (): void => { this.scrolledByHand = true }

  /** Scrolling up leaves the bottom. The browser scrolls up by itself, too, while rows are being replaced by others and
   * the content is short for a moment: `onResize` takes that back. A button that moved under the finger would miss its press. */
  private onScroll = (): void => {
    const box = this.box.current!
    const bottom = box.scrollHeight - box.scrollTop - box.clientHeight < BOTTOM_TOLERANCE
    const size = sizeOf(box)
    if (bottom) this.pinnedToBottom = true
    else if (box.scrollTop < this.scrollTop - 1 && (this.scrolledByHand || size === this.size)) this.pinnedToBottom = false
    this.scrollTop = box.scrollTop
    if (this.scrolledByHand || size === this.size) this.seeWaiting(false) // else `onResize` comes, which moves them back
    else this.showAway()
    this.scrolledByHand = false
    this.size = size
    if (box.scrollTop < LOAD_OLDER_AT) this.props.onTop()
  }

  override render({ items, row, marked, children }: Props<T>, { near, away }: { near: ReadonlySet<number>; away: boolean }) {
    const all = groupItems(items)
    const ids = [...all.keys()]
    const last = ids.at(-1) ?? 0
    const markedGroup = marked && ids.find((id) => all.get(id)!.some((item) => item.key === marked))
    for (const id of ids) if (!this.heights.has(id)) this.heights.set(id, all.get(id)!.length * ESTIMATED_ROW)
    return (
      <div class="thread-frame">
        <div class="thread-scroll" ref={this.box} onScroll={this.onScroll} onWheel={this.onHand} onTouchMove={this.onHand} role="log" aria-live="off" aria-label="Conversation" tabIndex={0}>
          <div class="thread-inner" ref={this.inner}>
            {ids.map((id) => {
              const shown = near.has(id) || id >= last - 1 || id === markedGroup // which has the focus
              return (
                <div key={id} class="group" data-group={id} ref={this.refCallback(id)} style={shown ? undefined : { height: `${this.heights.get(id)}px` }}>
                  {shown && all.get(id)!.map(row)}
                </div>
              )
            })}
            {children}
          </div>
        </div>
        {away && <button type="button" class="to-bottom" aria-label="Jump to latest" onClick={this.jumpToBottom}><Icon name="down" /></button>}
      </div>
    )
  }
}
