// The server sends times in UTC. This script can show them in the browser's time zone,
// which the server does not know. Each text names its zone.

const setting = 'tidegate-local-time';
const button = document.getElementById('zone');

const local = () => localStorage.getItem(setting) === 'on';

function words(machine) {
  if (!local()) return `${machine.replace('T', ' ').slice(0, 19)} UTC`;
  return new Date(machine).toLocaleString('sv-SE', { timeZoneName: 'short' });
}

// clock returns a time without its date and seconds.
export function clock(machine) {
  if (!local()) return `${machine.slice(11, 16)} UTC`;
  return new Date(machine).toLocaleString('sv-SE', { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
}

// shift returns a time of an input in another zone, with the minutes added.
function shift(value, minutes) {
  const at = new Date(`${value}Z`);
  if (!value || Number.isNaN(at.getTime())) return value;
  return new Date(at.getTime() + minutes * 60000).toISOString().slice(0, value.length);
}

// offset returns the difference of the browser's zone from UTC at a time, in minutes.
const offset = (value, zone) => -new Date(`${value}${zone}`).getTimezoneOffset();

// Inputs have UTC in requests and responses, and the chosen zone while they are shown.
function showInput(input) {
  const wanted = local() ? 'local' : 'UTC';
  if ((input.dataset.zone || 'UTC') === wanted) return;
  input.value = wanted === 'UTC' ? shift(input.value, -offset(input.value, ''))
    : shift(input.value, offset(input.value, 'Z'));
  input.dataset.zone = wanted;
  const name = input.closest('.field, label')?.querySelector('span');
  if (name) name.textContent = wanted === 'UTC' ? 'UTC' : 'local time';
}

function show() {
  document.querySelectorAll('input[data-zone]').forEach(showInput);
  button.setAttribute('aria-pressed', String(local()));
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = ('clock' in time.dataset ? clock : words)(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

button.hidden = false;
button.addEventListener('click', () => {
  localStorage.setItem(setting, local() ? 'off' : 'on');
  show();
  document.dispatchEvent(new Event('zone'));
});
document.addEventListener('submit', ({ target }) => {
  for (const input of target.querySelectorAll('input[data-zone="local"]')) {
    input.value = shift(input.value, -offset(input.value, ''));
    input.dataset.zone = 'UTC';
  }
}, true);
document.addEventListener('htmx:after:swap', show);
window.addEventListener('pageshow', () => local() && show());
if (local()) show();
