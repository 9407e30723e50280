// Live refresh: requests the section #live every data-live seconds, but not while the tab
// is hidden. When the server does not respond, the interval grows to 30 s and the last
// figures stay.

const longestWait = 30_000; // milliseconds
// Screen readers should not be interrupted at every refresh. In milliseconds.
const leastBetweenSummaries = 10_000;

let timer;
let failures = 0;
let answered = new Date(); // the time of the shown figures
let updated = performance.now();
let summarised = -leastBetweenSummaries;

const section = () => document.getElementById('live');
const period = () => Number(section()?.dataset.live ?? 0) * 1000;

function wait() {
  if (failures === 0) return period();
  return Math.min(longestWait, Math.max(period(), 1000 * 2 ** failures));
}

function schedule() {
  clearTimeout(timer);
  if (period() && !document.hidden) timer = setTimeout(refresh, wait());
}

function refresh() {
  section()?.dispatchEvent(new CustomEvent('refresh'));
}

function succeeded() {
  failures = 0;
  answered = new Date();
  updated = performance.now();
  showStale('');
  showHealth(true);
  showAge();
  showTimes();
  showSummary();
}

// showTimes tells in the menu of the refresh what its times are, and in the navigation how
// many callers are denied now.
function showTimes() {
  const { asof, counted, denied } = section().dataset;
  for (const [selector, at] of [['.asof time', asof], ['.counted time', counted]]) {
    const time = document.querySelector(selector);
    if (time && at) time.dateTime = at;
  }
  const badge = document.querySelector('[data-denied].n');
  if (badge) badge.textContent = denied;
}

// failed reports that a refresh failed. The page of an error names Valkey if that is the
// cause.
async function failed(response) {
  failures++;
  showAge();
  const { text, valkey } = document.getElementById('stale').dataset;
  const page = await response?.text().catch(() => '');
  if (failures === 0) return; // a later refresh came first
  if (!page?.includes(valkey)) return showStale(text);
  showHealth(false);
  const since = times.clock(answered.toISOString());
  showStale(`Valkey has not answered since ${since}. ${section().dataset.outage} Showing the last known figures.`);
}

function showStale(text) {
  const notice = document.getElementById('stale');
  if (notice.textContent !== text) notice.textContent = text; // each change is read aloud
}

// showHealth says in the navigation whether Valkey answers.
function showHealth(answers) {
  const [now, away] = document.querySelectorAll('.health');
  if (!now) return;
  now.hidden = !answers;
  away.hidden = answers;
}

// showAge tells the age of figures that should have been refreshed.
function showAge() {
  const age = document.getElementById('age');
  if (!age || !period()) return;
  const seconds = Math.floor((performance.now() - updated) / 1000);
  const old = failures > 0 || seconds > 2 * (period() / 1000) + 2;
  age.textContent = old ? `${seconds} s old` : 'Live';
  age.previousElementSibling.classList.toggle('denied', old);
}

// showSummary announces changes to screen readers, in an element outside of the refreshed
// section.
function showSummary() {
  const text = section()?.dataset.summary ?? '';
  const status = document.getElementById('live-summary');
  if (!status || status.textContent === text || performance.now() - summarised < leastBetweenSummaries) return;
  summarised = performance.now();
  status.textContent = text;
}

// holdOrder keeps the rows of a list in place while the pointer or the focus is in it, so
// that only figures change. New rows take the places of removed ones.
function holdOrder(fragment) {
  for (const list of fragment.querySelectorAll('[data-rows]')) {
    const shown = document.getElementById(list.id);
    if (!shown?.matches(':hover, :focus-within')) continue;
    const rows = new Map([...list.children].filter(({ id }) => id).map((row) => [row.id, row]));
    const known = [...shown.children].filter(({ id }) => id);
    const added = [...rows.keys()].filter((id) => !known.some((row) => row.id === id));
    const order = known.map(({ id }) => (rows.has(id) ? id : added.shift())).filter(Boolean);
    list.append(...[...order, ...added].map((id) => rows.get(id)));
  }
}

document.addEventListener('htmx:before:swap', ({ detail: { tasks } }) => tasks.forEach(({ fragment }) => holdOrder(fragment)));
const ours = ({ target }) => target === section();

document.addEventListener('htmx:before:response', (event) => {
  if (!ours(event)) return;
  const { response, hx } = event.detail.ctx;
  if (response.status < 400 || hx?.redirect) return;
  event.preventDefault(); // an error page has no section: keep what is shown
  if (response.status >= 500) failed(response.raw);
  else location.reload();
});
document.addEventListener('htmx:error', (event) => ours(event) && failed());
document.addEventListener('htmx:after:swap', (event) => ours(event) && succeeded());
document.addEventListener('htmx:finally:request', (event) => ours(event) && schedule());
document.addEventListener('visibilitychange', () => (document.hidden ? schedule() : period() && refresh()));

document.addEventListener('refresh-now', refresh);

if (section() && period()) {
  schedule();
  showAge();
  setInterval(showAge, 1000);
}
