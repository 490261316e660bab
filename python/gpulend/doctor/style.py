"""How the page looks: light and dark, on a desk and on a phone."""

STYLE = """
:root {
  --ground: #fbfbf9; --card: #ffffff; --text: #1d2327; --faint: #5c676e; --line: #d9dee1;
  --well: #11693c; --broken: #a3140f; --broken-back: #fbe3e0; --no: #eceeef;
  --h0: #e3f4ea; --h1: #cbe9e0; --h2: #a9d8da; --h3: #86c1d2; --h4: #5f9fc4; --h5: #3f78ae;
  --h6: #2c528f; --on-hot: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #13171a; --card: #1b2125; --text: #e6eaec; --faint: #9aa6ad; --line: #333c42;
    --well: #6fd39b; --broken: #ff8f85; --broken-back: #4a1d1a; --no: #23292d;
    --h0: #16352a; --h1: #164038; --h2: #184c4e; --h3: #1d5a68; --h4: #215f7c; --h5: #2f6f9c;
    --h6: #3f7fc0; --on-hot: #ffffff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 72rem; padding: 1rem clamp(.75rem, 3vw, 2rem) 7rem;
  background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }
h1 { font-size: 1.6rem; margin: .3rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
header p { margin: 0; font-weight: 600; }
p { margin: .4rem 0; max-width: 46rem; }
.well { color: var(--well); }
.broken { color: var(--broken); }
.small, footer { color: var(--faint); font-size: .875rem; }
footer { margin-top: 2.5rem; }
.cards { display: flex; flex-wrap: wrap; gap: .5rem; margin: .6rem 0; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .3rem .8rem; color: var(--faint);
}
.card b { color: var(--text); font-size: 1.1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 2px; }
.matrix { margin: .5rem 0; font-variant-numeric: tabular-nums; }
.matrix th { font-weight: 600; font-size: .875rem; padding: .2rem .5rem; text-align: center; }
.matrix th:first-child {
  position: sticky; left: 0; background: var(--ground); text-align: left; z-index: 1;
  white-space: nowrap;
}
.matrix td {
  min-width: 4.6rem; height: 3rem; padding: .1rem .3rem; text-align: center; border-radius: .35rem;
  line-height: 1.2; cursor: default; border: 2px solid transparent;
}
.matrix td b { display: block; font-weight: 600; }
.matrix td i { font-style: normal; font-size: .75rem; }
.matrix td:hover, .matrix td:focus { outline: 2px solid var(--text); outline-offset: 1px; }
.h0 { background: var(--h0); } .h1 { background: var(--h1); } .h2 { background: var(--h2); }
.h3 { background: var(--h3); }
.h4 { background: var(--h4); } .h5 { background: var(--h5); } .h6 { background: var(--h6); }
.h5, .h6 { color: var(--on-hot); }
.no { background: var(--no); color: var(--faint); }
.matrix td.bad, .key.bad { border: 2px dashed var(--broken); }
.fails, .key.bad { background: var(--broken-back); color: var(--broken); }
.tip {
  display: none; position: fixed; z-index: 2; left: 50%; bottom: .75rem;
  transform: translateX(-50%);
  width: min(40rem, calc(100vw - 1.5rem)); max-height: 60vh; overflow: auto; text-align: left;
  background: var(--card); color: var(--text); border: 1px solid var(--faint);
  border-radius: .6rem; padding: .6rem .9rem; box-shadow: 0 4px 24px #0006; font-size: .875rem;
  line-height: 1.4;
}
.tip h3 { margin: 0 0 .3rem; font-size: 1rem; }
td:focus .tip { display: block; }
td:hover .tip { display: block; z-index: 3; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .9rem; margin: 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.keys { display: flex; flex-wrap: wrap; gap: .3rem; max-width: none; }
.key {
  padding: .05rem .5rem; border-radius: .35rem; font-size: .8rem; border: 2px solid transparent;
}
code {
  font: .875em ui-monospace, "DejaVu Sans Mono", monospace; background: var(--no);
  padding: .1rem .35rem; border-radius: .25rem; overflow-wrap: anywhere;
}
.plain { font-size: .875rem; border-spacing: 0; }
.plain th, .plain td {
  text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
details { margin-top: 2rem; }
summary { cursor: pointer; font-weight: 600; }
ul { padding-left: 1.2rem; }
@media (min-width: 40.01rem) {
  .tip { width: min(58rem, calc(100vw - 1.5rem)); }
  .tip dl { grid-template-columns: max-content 1fr max-content 1fr; }
  /* What is pointed at in the lower rows would lie under it. */
  .matrix tbody tr:nth-child(n + 6) .tip { top: .75rem; bottom: auto; }
}
@media (max-width: 40rem) {
  .matrix th[scope=col] { vertical-align: bottom; padding: .2rem 0; }
  .matrix th[scope=col] span { writing-mode: vertical-rl; transform: rotate(180deg); }
  .matrix th:first-child { padding: 0 .2rem 0 0; font-size: .75rem; }
  .matrix td { min-width: 2.4rem; padding: 0; font-size: .8rem; }
  .matrix td i { font-size: .65rem; }
  .tip dl { grid-template-columns: 8.5rem 1fr; }
  .facts { grid-template-columns: 1fr; }
  .facts dd { margin-bottom: .4rem; }
}
@media print { .tip { display: none !important; } body { max-width: none; } }
"""
