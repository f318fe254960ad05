"""What we have made safe for clients that render it, in a browser that repairs whatever it gets."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from jupyter_collaboration_mcp.documents.safe_markup import safe_html, safe_svg
from tests.harness.browser import new_page

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

#: What changes how a browser reads what follows, and what runs if it is read as a tag.
IN_HTML = """
<svg> </svg> <math> </math> <style> </style> <title> </title> <textarea> </textarea> <noscript>
</noscript> <xmp> <template> <table> </table> <td> <tr> <caption> <select> <option> <p> </p> <b>
</b> <!-- --> --!> <![CDATA[ ]]> <mglyph> <mtext> <malignmark> <desc> <foreignObject> <plaintext>
<form> <frameset> <ruby> <rp> <pre> <dd> <h1> <summary> </br> </body> ` '> \"> \x00 x
<script>hit()</script> <img/src=x/onerror=hit()> <details/open/ontoggle=hit()> <body/onload=hit()>
<input/autofocus/onfocus=hit()> <a/href=javascript:hit()> <iframe/srcdoc="<script>parent.hit()">
&lt;img/src=x/onerror=hit()&gt; <a/href=' <img/alt=' <b/title=" <b/id=x>
<time/datetime="</title><img/src=x/onerror=hit()>">"""
HTML = IN_HTML.split()

IN_SVG = """
<g> </g> <desc> </desc> <title> </title> <text> </text> <title/> <desc/> <svg> </svg>
&lt;img/src=x/onerror=hit()&gt; <![CDATA[</title><img/src=x/onerror=hit()>]]> <script>hit()</script>
<style>x</style> <svg%sonload='hit()'/> <rect%sx='&lt;/title&gt;&lt;img/src=x/onerror=hit()&gt;'/>
<use%shref='#a'/> <a%shref='javascript:hit()'>x</a> <foreignObject/>
<animate%sonbegin='hit()'%sattributeName='x'%sdur='1s'/>"""
SVG = [piece.replace("%s", " ") for piece in IN_SVG.split()]

#: Renders each text, renders what became of it again, and tells what could run in it.
RENDER = """texts => {
  window.hits = 0; window.hit = () => { window.hits++ };
  const bad = [];
  const CODE = /^(script|style|iframe|object|embed|template|foreignobject|base|link|form|math)$/i;
  const look = (place, text) => {
    for (const element of place.querySelectorAll('*')) {
      if (CODE.test(element.localName)) bad.push([text, element.localName]);
      for (const {name, value} of element.attributes)
        if (/^on|^srcdoc$|^id$/i.test(name) || /^[\\x00-\\x20]*(javascript|vbscript):/i.test(value))
          bad.push([text, name]);
    }
  };
  for (const text of texts) {
    const place = document.createElement('div');
    document.body.append(place);
    for (let html = text, turn = 0; turn < 3; turn++) {
      place.innerHTML = html;
      look(place, text);
      html = '<p>' + place.innerHTML;
    }
    place.remove();
  }
  return bad;
}"""


async def test_nothing_runs_in_what_was_made_safe_however_a_browser_repairs_it(
    times: Callable[[int, int], int],
) -> None:
    random_, texts = random.Random(0), list[str]()
    for _ in range(times(1_500, 30_000)):
        pieces = random_.choices(HTML, k=random_.randint(2, 14))
        texts.append(safe_html("".join(pieces).replace("/href", " href")))
        pieces = random_.choices(SVG, k=random_.randint(1, 7))
        svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{''.join(pieces)}</svg>"
        texts.append(safe_svg(svg) or "")
    assert sum(text.startswith("<svg") for text in texts) > len(texts) // 100
    async with new_page() as page:
        assert await page.evaluate(RENDER, texts) == []
        assert await page.evaluate("hits") == 0
        assert await page.evaluate(RENDER, ["<img src=x onerror=hit()>"]) != []
