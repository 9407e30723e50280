// Live refresh: asks for the section #live again every data-live seconds. Nothing is asked for while the tab is hidden, and when the server does not
// answer the wait grows to half a minute while the last figures stay on screen.

const longestWait = 30_000;

let timer;
let failures = 0;
let updated = performance.now();

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
  updated = performance.now();
  showStale(false);
  showAge();
}

function failed() {
  failures++;
  showStale(true);
}

function showStale(stale) {
  const notice = document.getElementById('stale');
  const text = stale ? notice.dataset.text : '';
  if (notice.textContent !== text) notice.textContent = text; // each change is read aloud
}

function showAge() {
  const age = document.getElementById('age');
  if (!age || !period()) return;
  age.textContent = `updated ${Math.floor((performance.now() - updated) / 1000)} s ago`;
}

document.addEventListener('htmx:before:response', (event) => {
  const { response, hx } = event.detail.ctx;
  if (response.status < 400 || hx?.redirect) return;
  event.preventDefault(); // an error page is no section: keep what is shown
  if (response.status >= 500) failed();
  else location.reload();
});
document.addEventListener('htmx:error', failed);
document.addEventListener('htmx:after:swap', succeeded);
document.addEventListener('htmx:finally:request', schedule);
document.addEventListener('visibilitychange', () => (document.hidden ? schedule() : period() && refresh()));

if (section() && period()) {
  schedule();
  showAge();
  setInterval(showAge, 1000);
}
