"""What makes a page hard to use for some: axe-core's findings, controls without a name, what the screen cuts off."""

from pathlib import Path

from playwright.async_api import Page

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
RUN = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .map(one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 200) + ' ' + node.any.map(any => any.message))
  )"""
NAMELESS = """() => [...document.querySelectorAll('button, a, input:not([hidden]), textarea, select')]
  .filter(one => one.checkVisibility() && one.type !== 'file')
  .filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length || one.title))
  .map(one => 'without a name: ' + one.outerHTML)"""
BEYOND = """() => {
  const by = document.documentElement.scrollWidth - document.documentElement.clientWidth
  return by ? [`${by} pixels wider than the screen`] : []
}"""


async def faults(page: Page) -> list[str]:
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(AXE.read_text())
    violations: list[str] = []
    for script in (NAMELESS, RUN, BEYOND):
        violations += await page.evaluate(script)
    return violations
