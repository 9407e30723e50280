// The server sends times in UTC. This script shows them as people write them, in the
// browser's time zone, which the server does not know, or in UTC. The menu Display names
// the zone, and a time with its date and zone is on hover. Other scripts write times with
// the global times.

const setting = 'tidegate-local-time';
const button = document.getElementById('zone');

const local = () => localStorage.getItem(setting) !== 'off';

// words returns a time with its date and zone.
function words(machine, zoned = local()) {
  if (!zoned) return `${new Date(machine).toISOString().replace('T', ' ').slice(0, 19)} UTC`;
  const [year, two] = ['numeric', '2-digit'];
  return new Date(machine).toLocaleString('sv-SE', {
    year, month: two, day: two, hour: two, minute: two, second: two, timeZoneName: 'short',
  });
}

// short returns a time of today with its seconds, and another one with its date.
function short(machine) {
  const [date, clock] = words(machine).split(' ');
  const now = words(new Date().toISOString());
  if (now.startsWith(date)) return clock;
  const [year, month, day] = date.split('-').map(Number);
  const name = new Date(year, month - 1, day).toLocaleString('en', { month: 'short' });
  return `${day} ${name} ${now.startsWith(`${year}-`) ? '' : `${year} `}${clock.slice(0, 5)}`;
}

// clock returns a time without its date and seconds.
const clock = (machine) => words(machine).split(' ')[1].slice(0, 5);

window.times = { local, words, short, clock };

// toLocal and toUTC convert times of inputs. The browser reads a time that the clock skips as
// the one an hour later, and one that the clock repeats as the first.
const toLocal = (value) => {
  const at = new Date(`${value}Z`);
  return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, value.length);
};
const toUTC = (value) => new Date(value).toISOString().slice(0, value.length);

// utc returns an input's time as requests and responses have it. A time that nobody changed
// stays the same instant, even if the clock repeats it.
function utc({ value, dataset: { zone, shown, sent } }) {
  if (!value || zone !== 'local') return value;
  return value === shown ? sent : toUTC(value);
}

function showInput(input) {
  const data = input.dataset;
  if ((data.zone === 'local') === local()) return;
  const value = utc(input);
  Object.assign(data, { zone: local() ? 'local' : 'UTC', sent: value });
  input.value = value && local() ? toLocal(value) : value;
  data.shown = input.value;
  const name = input.closest('.field, label')?.querySelector('span');
  if (name) name.textContent = local() ? 'local time' : 'UTC';
}

// showHint tells an input's time in the other zone.
function showHint(input) {
  const hint = document.getElementById(`${input.id}-hint`);
  if (!hint) return;
  hint.dataset.text ??= hint.textContent;
  hint.textContent = input.value ? words(`${utc(input)}Z`, !local()) : hint.dataset.text;
}

// next returns when the clock of the zone shown has an hour next, on a weekday if there is one.
function next(moment) {
  const [hour, day] = moment.split(' ');
  const zone = local() ? '' : 'UTC';
  const at = new Date();
  do {
    at[`set${zone}Hours`](at[`get${zone}Hours`]() < hour ? hour : 24 + Number(hour), 0, 0, 0);
  } while (day && String(at[`get${zone}Day`]()) !== day);
  return `${at.toISOString().slice(0, 19)}Z`;
}

// showOption tells an option's instant. A chosen instant stays, whatever the zone.
function showOption(option) {
  const data = option.dataset;
  if (data.moment && data.at !== next(data.moment)) {
    if (option.selected) Object.assign(data, { moment: '', text: 'until' });
    else data.at = option.value = next(data.moment);
  }
  option.text = `${data.text}: ${words(data.at).replace(/:..(?= )/, '')}`;
}

function show() {
  document.querySelectorAll('input[data-zone]').forEach((input) => {
    showInput(input);
    showHint(input);
  });
  document.querySelectorAll('option[data-at]').forEach(showOption);
  button.setAttribute('aria-pressed', String(local()));
  const [, , ...zone] = words(new Date().toISOString()).split(' ');
  button.textContent = `Times in ${local() ? zone.join(' ') : 'UTC'}`;
  markTimes();
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = ('clock' in time.dataset ? clock : short)(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
    if (time.title !== words(time.dateTime)) time.title = words(time.dateTime);
  }
}

const written = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/;

// markTimes makes elements of the times in sentences.
function markTimes() {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (written.test(text.data) && !text.parentElement.closest('time, pre, script, textarea, .hint, #preview-title')) found.push(text);
  }
  for (let text of found) {
    for (let match = written.exec(text.data); match; match = written.exec(text.data)) {
      const after = text.splitText(match.index);
      text = after.splitText(match[0].length);
      const time = Object.assign(document.createElement('time'), { dateTime: `${match[1]}T${match[2]}Z`, textContent: match[0] });
      after.replaceWith(time);
    }
  }
}

button.hidden = false;
button.addEventListener('click', () => {
  localStorage.setItem(setting, local() ? 'off' : 'on');
  show();
  document.dispatchEvent(new Event('zone'));
});
document.addEventListener('formdata', ({ target, formData }) => {
  for (const input of target.querySelectorAll('input[data-zone=local]')) formData.set(input.name, utc(input));
});
document.addEventListener('input', ({ target }) => target.matches('[data-zone]') && showHint(target));
// A time that the clock skips turns into the one that it is read as.
document.addEventListener('focusout', ({ target }) => {
  if (target.matches('[data-zone=local]') && target.value) target.value = toLocal(utc(target));
});
document.addEventListener('htmx:after:swap', show);
window.addEventListener('pageshow', show);
show();
