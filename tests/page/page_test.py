#!/usr/bin/env python3
"""The page in headless Chromium, over a made recording. Exit status 77: there is no Chromium here (scripts/deps browser)."""

import copy
import json
import sys
import unittest
import urllib.parse

import browser
import recorded
import served_page

MARKS = "[...document.querySelectorAll('.mark')]"
BOX = "(() => {{ const e = {0}; e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
DETAIL = "document.getElementById('decision').innerText"


def in_window(seconds=3600):
    return [d for d in recorded.service()["decisions"] if d["t"] >= recorded.END - seconds]


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = cls.enterClassContext(browser.Browser())

    def setUp(self):
        self.served = self.enterContext(served_page.ServedPage())
        self.page.problems.clear()
        self.page.requests.clear()
        self.expected_problems = []
        self.page.size(1280, 900)

    def tearDown(self):
        self.page.run("1")  # collects what came last
        left = [p for p in self.page.problems if not any(e in p for e in self.expected_problems)]
        self.assertEqual(left, [], "the console has errors")
        own = urllib.parse.urlsplit(self.served.url).netloc
        other = [u for u in self.page.requests if not u.startswith(("data:", "about:")) and urllib.parse.urlsplit(u).netloc != own]
        self.assertEqual(other, [], "the page asks another server")
        self.page.call("Page.navigate", url="about:blank")  # before its server ends

    def show(self, after=""):
        self.page.open(self.served.url + after)
        self.page.wait(f"{MARKS}.length > 0", "the page shows the service")

    def value(self, script):
        return self.page.run(script)

    def assert_shows(self, decision):
        shown = self.value(DETAIL)
        for text in (decision["reason"], decision["message"], *(c["counts"] for c in decision["candidates"]),
                     *(c["lostBy"] for c in decision["candidates"])):
            self.assertIn(text, shown)


class Decisions(PageCase):
    def test_each_mark_opens_to_its_reason_by_click(self):
        self.show()
        self.assertEqual(self.value(f"{MARKS}.length"), len(in_window()))
        for i, decision in enumerate(in_window()):
            self.page.click(*self.value(BOX.format(f"{MARKS}[{i}]")))
            self.assert_shows(decision)
            self.assertEqual(self.value(f"{MARKS}.map((m) => m.getAttribute('aria-expanded')).indexOf('true')"), i)

    def test_each_mark_opens_to_its_reason_by_keyboard(self):
        self.show()
        for _ in range(40):
            if self.value("document.activeElement.classList.contains('mark')"):
                break
            self.page.key("Tab")
        self.assertTrue(self.value("document.activeElement.classList.contains('mark')"), "Tab reaches no mark")
        self.assertNotEqual(self.value("getComputedStyle(document.activeElement).outlineStyle"), "none", "the focus is not visible")
        self.page.key("Home")
        for i, decision in enumerate(in_window()):
            self.assertEqual(self.value(f"{MARKS}.indexOf(document.activeElement)"), i)
            self.page.key("Enter" if i % 2 else " ")
            self.assert_shows(decision)
            self.page.key("ArrowRight")

    def test_marks_of_every_window_open(self):
        self.show()
        for i, seconds in enumerate((900, 3600, 21600, 86400)):
            self.value(f"document.querySelectorAll('#windows button')[{i}].click()")
            due = in_window(seconds)
            self.assertEqual(self.value(f"{MARKS}.length"), len(due))
            for k, decision in enumerate(due):
                self.value(f"{MARKS}[{k}].click()")
                self.assert_shows(decision)

    def test_what_happened_after_a_change_is_compared_with_what_was_expected(self):
        self.show()
        self.value(f"{MARKS}[2].click()")
        self.assertRegex(self.value(DETAIL), r"Ready within 4\d s\. Median TPOT [\d.]+ ms, [\d.]+ % (above|below) the prediction")

    def test_a_poll_keeps_what_is_open_and_the_focus(self):
        self.show()
        self.value(f"{MARKS}[1].focus()")
        self.page.key("Enter")
        self.value("poll()")
        self.assertEqual(self.value(f"{MARKS}.indexOf(document.activeElement)"), 1)
        self.assert_shows(in_window()[1])

    def test_a_poll_reads_only_what_is_new(self):
        whole = self.served.services[0]
        last = whole["decisions"][-2]["t"]  # the page does not have it yet
        series = [p for p in whole["series"] if p["t"] < last]
        early = {**whole, "series": series, "decisions": whole["decisions"][:-2], "time": series[-1]["t"] + 1}
        self.served.services = [early]
        self.show()
        self.page.requests.clear()
        self.served.services = [whole]
        for _ in range(2):  # nothing is there twice
            self.value("poll()")
            for part in ("series", "decisions"):
                self.assertEqual(self.value(f"state.data.{part}"), whole[part])
        self.assertEqual([u.partition("/since/")[2] for u in self.page.requests if "demo" in u],
                         [str(early["series"][-1]["t"]), str(whole["series"][-1]["t"])])

    def test_data_is_shown_as_text(self):
        evil = copy.deepcopy(recorded.service())
        evil["decisions"][-2]["message"] = "<img src=x onerror=alert(1)><b>bold</b>"
        evil["placement"]["instances"][0] = "<script>alert(2)</script>"
        evil["emulated"] = "<i>x</i>"
        self.served.services = [evil]
        self.show()
        self.assertIn("<img src=x onerror=alert(1)><b>bold</b>", self.value(DETAIL))
        self.assertEqual(self.value("document.querySelectorAll('main img, main script, main i').length"), 0)

    def test_other_micro_batches_have_a_mark_of_their_own(self):
        split = copy.deepcopy(recorded.service())
        one = in_window()[0]
        split["decisions"][split["decisions"].index(one)].update(
            action="Split", to=one["from"], message="micro-batches: 2 (TPOT 61.0 ms) instead of 1 (70.2 ms)")
        self.served.services = [split]
        self.show()
        self.value(f"{MARKS}[0].click()")
        self.assertEqual(self.value(f"{MARKS}[0].textContent"), "◆")
        said = self.value(DETAIL)
        self.assertIn(f"Split at {one['from']}", said)
        self.assertIn("micro-batches: 2 (TPOT 61.0 ms) instead of 1 (70.2 ms)", said)


class Charts(PageCase):
    def test_each_chart_draws_its_lines_and_reads_values_by_keyboard(self):
        self.show()
        lines = self.value("Object.fromEntries([...document.querySelectorAll('.chart:not([hidden]) .plot')].map((p) =>"
                           " [p.dataset.chart, p.querySelectorAll('path.l').length]))")
        self.assertEqual(lines, {"load": 1, "waiting": 2, "counts": 4, "tpot": 2, "attained": 1})
        self.value("document.querySelector('[data-chart=tpot]').focus()")
        self.page.key("ArrowLeft")
        self.assertRegex(self.value("document.getElementById('spoken').textContent"), r"^\d\d:\d\d:\d\d: predicted [\d.]+ ms, observed [\d.]+ ms$")

    def test_a_table_has_the_same_numbers(self):
        self.show()
        self.value("document.querySelector('#windows button').click()")
        self.value("document.querySelector('#numbers summary').click()")
        self.page.wait("document.querySelectorAll('#numbers tbody tr').length > 0", "the table is filled")
        last = recorded.service()["series"][-1]
        row = self.value("[...document.querySelector('#numbers tbody tr').children].map((c) => c.textContent)")
        self.assertEqual(row[1], f"{last['requestsPerSecond']:g}")
        self.assertEqual(row[4:6], [str(last["attention"]), str(last["experts"])])

    def test_a_day_of_points_and_unknown_values_are_drawn(self):
        day = copy.deepcopy(recorded.service(hours=24))
        for p in day["series"][-40:-20]:
            p["tpotSeconds"] = None
        day.update(placement=None, modelError={"attention": None, "experts": None, "exchange": None, "step": None})
        day["targets"] = {"tpotSeconds": None, "tpotPercentile": None, "ttftSeconds": 0.5, "ttftPercentile": 0.9}
        self.served.services = [day]
        self.show()
        self.assertEqual(self.value("document.querySelector('[data-chart=tpot]').querySelectorAll('path.violet').length"), 2)
        self.assertFalse(self.value("document.querySelector('[data-chart=ttft]').parentElement.hidden"))
        self.value("document.querySelectorAll('#windows button')[3].click()")
        self.assertIn("No search for a placement has run yet.", self.value("document.getElementById('experts').innerText"))

    def test_a_service_without_any_point_is_shown(self):
        new = copy.deepcopy(recorded.service())
        new.update(series=[], decisions=[], placement=None)
        self.served.services = [new]
        self.page.open(self.served.url)
        self.page.wait("!document.getElementById('service').hidden", "the page shows the service")
        self.assertIn("No decision yet.", self.value(DETAIL))

    def test_what_holds_decisions_is_named_with_and_without_one(self):
        hold = {"t": recorded.END - 90, "at": "1A8E", "reason": "EmulationLate", "message": "lower timeScale"}
        for decided in (False, True):
            one = copy.deepcopy(recorded.service()) | {"hold": hold}
            if not decided:
                one.update(series=[], decisions=[], placement=None)
            self.served.services = [one]
            self.page.open(self.served.url)
            self.page.wait("!document.getElementById('service').hidden", "the page shows the service")
            said = self.value(DETAIL)
            self.assertIn("Held now: EmulationLate – lower timeScale (90 s ago)", said)
            self.assertEqual("No decision yet." in said, not decided)


class HeatMap(PageCase):
    def holders(self, layer, expert):
        p = recorded.service()["placement"]
        return [name for name, slots in zip(p["instances"], p["layers"][layer]["slots"]) if expert in slots]

    def assert_cell(self, layer, expert):
        shown = self.value("document.getElementById('cell').innerText")
        self.assertIn(f"Layer {layer}, expert {expert}", shown)
        self.assertEqual(self.value("document.getElementById('holders').textContent"), ", ".join(self.holders(layer, expert)))
        share = 100 * recorded.service()["placement"]["layers"][layer]["share"][expert]
        self.assertIn(f"{float(f'{share:.3g}'):g} % of the rows chose it", shown)

    def test_a_clicked_cell_shows_its_instances(self):
        self.show()
        self.value("document.getElementById('map').scrollIntoView()")
        for layer, expert in ((0, 0), (7, 12), (25, 63)):
            x, y = self.value(f"(() => {{ const b = document.getElementById('map').getBoundingClientRect();"
                              f" return [b.left + map.side + map.wide * {expert + 0.5}, b.top + map.high * {layer + 0.5}]; }})()")
            self.page.click(x, y)
            self.assert_cell(layer, expert)

    def test_arrow_keys_choose_a_cell(self):
        self.show()
        self.value("document.getElementById('map').focus()")
        self.page.key("Home")
        layer = self.value("state.cell.layer")
        self.assert_cell(layer, 0)
        self.page.key("ArrowRight")
        self.page.key("ArrowDown" if layer == 0 else "ArrowUp")
        self.assert_cell(layer + 1 if layer == 0 else layer - 1, 1)

    def test_cells_with_more_rows_are_darker_and_the_layer_has_a_table(self):
        self.expected_problems = ["Canvas2D: Multiple readback"]  # by this test
        self.show()
        share = recorded.service()["placement"]["layers"][3]["share"]
        dark = ("(() => {{ const d = document.getElementById('map').getContext('2d'); const [r, g, b] = d.getImageData("
                "map.side + map.wide * {0} + map.wide / 2, map.high * 3.5, 1, 1).data; return r + g + b; }})()")
        low, high = share.index(min(share)), share.index(max(share))
        self.assertGreater(self.value(dark.format(low)), self.value(dark.format(high)) + 100)
        self.value("document.querySelector('#experts summary').click()")
        self.page.wait("document.querySelectorAll('#experts details tbody tr').length === 64", "the layer has a row for each expert")


class Answers(PageCase):
    def test_401_asks_for_a_token_and_goes_on_with_it(self):
        self.expected_problems = ["401"]
        self.served.token = "right token"
        self.page.open(self.served.url)
        for token, then in (("wrong", "document.getElementById('login').open && document.getElementById('login-why').textContent.startsWith('The token was refused')"),
                            ("right token", f"{MARKS}.length > 0 && !document.getElementById('login').open")):
            self.page.wait("document.getElementById('login').open", "the form opens")
            self.assertEqual(self.value("document.activeElement.id"), "token")
            self.page.type(token)
            self.page.key("Enter")
            self.page.wait(then, f"the answer to {token}")
        self.assertEqual(self.value("localStorage.length + sessionStorage.length + document.cookie.length"), 0)
        self.assertFalse(any("token" in url for url in self.page.requests), "the token is in an address")

    def test_503_is_shown_and_the_data_stays(self):
        self.expected_problems = ["503"]
        self.show()
        self.served.failure = (503, "This operator does not lead.")
        self.value("poll()")
        self.page.wait("document.getElementById('wrong').textContent === 'This operator does not lead.'", "the sentence is shown")
        self.assertRegex(self.value("document.getElementById('age').textContent"), r"^The data is \d+ s old\.$")
        self.assertGreater(self.value(f"{MARKS}.length"), 0)
        self.served.failure = None
        self.page.wait("document.getElementById('wrong').textContent === ''", "the page goes on polling by itself")

    def test_404_of_a_service_is_a_sentence(self):
        self.expected_problems = ["404"]
        self.page.open(self.served.url + "#default/gone")
        self.page.wait("document.getElementById('wrong').textContent.startsWith('There is no service at')", "the sentence is shown")

    def test_several_services_are_a_list(self):
        self.served.services = [recorded.service(), {**recorded.service(), "name": "other", "namespace": "team-a"}]
        self.page.open(self.served.url)
        self.page.wait("document.querySelectorAll('#list a').length === 2", "the list is shown")
        self.value("document.querySelectorAll('#list a')[1].click()")
        self.page.wait(f"{MARKS}.length > 0 && document.getElementById('name').textContent === 'team-a/other'", "the service is shown")
        self.assertFalse(self.value("document.getElementById('all').hidden"))


class Looks(PageCase):
    CONTRAST = """(() => {
      const luminance = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b; };
      const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(', 0)')) return c; } return 'rgb(255,255,255)'; };
      return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && !e.closest('svg') && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
        .map((e) => { const a = luminance(getComputedStyle(e).color), b = luminance(back(e)); return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.className + ' ' + e.textContent.slice(0, 30)]; })
        .filter(([ratio]) => ratio < 4.5);
    })()"""

    def test_texts_are_readable_in_light_and_dark_mode(self):
        for dark in (False, True):
            with self.subTest(dark=dark):
                self.page.size(1280, 900, dark)
                self.show()
                self.assertEqual(self.value(self.CONTRAST), [])
                light = self.value("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(light == "rgb(14, 18, 23)", dark)

    def test_no_width_scrolls_sideways(self):
        for width in (360, 768, 1280, 1920):
            with self.subTest(width=width):
                self.page.size(width, 800)
                self.show()
                self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)

    def test_polls_shift_nothing(self):
        self.show()
        self.value("window.shifts = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.shifts += e.value; }).observe({type: 'layout-shift', buffered: false})")
        for _ in range(3):
            self.value("poll().then(() => new Promise(requestAnimationFrame)).then(() => 1)")
        self.assertEqual(self.value("window.shifts"), 0)

    def test_every_control_has_a_name(self):
        self.show()
        tree = self.page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "link", "img", "region", "textbox"}
        bare = [json.dumps(n["role"]) for n in tree if not n.get("ignored") and n["role"]["value"] in roles and not n.get("name", {}).get("value")]
        self.assertEqual(bare, [])


if __name__ == "__main__":
    if not browser.program():
        print("skipped: no Chromium; install it with scripts/deps browser")
        sys.exit(77)
    unittest.main()
