// Shows each row of the limits form as text while it is edited, in the words that the
// server uses.

const grouped = /^\d{1,3}([,\s]\d{3})+$/;

function parse(text) {
  const trimmed = text.trim();
  if (!/^\d+$/.test(trimmed) && !grouped.test(trimmed)) return 0;
  return Number(trimmed.replace(/[,\s]/g, ''));
}

const figure = (n) => n.toLocaleString('en-US');

const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000], ['second', 1000], ['millisecond', 1]];

// Formats a window in its largest exact unit, like the server: 90 minutes, but 2 hours.
function windowWords(milliseconds) {
  const [unit, size] = units.find(([, size]) => milliseconds % size === 0);
  const count = milliseconds / size;
  return count === 1 ? unit : `${count} ${unit}s`;
}

function windowOf(count, unit) {
  const size = new Map(units).get(unit);
  return count && size ? windowWords(count * size) : '';
}

function calendarOf(count, unit, zone) {
  return !count || count === '1' ? `${unit} (${zone || 'UTC'})` : '';
}

// Reports whether the optional fields suit the algorithm and the unit. The server rejects
// others, so such a row has no text.
function fits({ calendar, algorithm, zone, slots, denied }) {
  if (calendar ? algorithm !== 'fixed-window' : zone) return false;
  return algorithm === 'log' || !(slots || denied);
}

// Formats the alert thresholds: empty for none, null if the server rejects them.
function alerts(text, denied) {
  const percents = text.replace(/%$/, '').split(/[ ,/]+/).filter(Boolean);
  const good = percents.every((p, i) => /^[1-9]\d*%?$/.test(p) && parseInt(p, 10) <= 100 && (!i || parseInt(p, 10) > parseInt(percents[i - 1], 10)));
  if (!good || percents.length > 5 || (percents.length && denied)) return null;
  return percents.length ? `notify at ${percents.map((p) => parseInt(p, 10)).join('/')} %` : '';
}

function words(row) {
  const field = (name) => row.querySelector(`[name$=".${name}"]`);
  const text = (name) => field(name).value.trim();
  const unit = text('unit');
  const calendar = unit.startsWith('calendar ');
  const [algorithm, zone, slots, denied] = [text('algorithm'), text('zone'), text('slots'), field('countDenied')?.checked];
  const requests = parse(text('requests'));
  const per = calendar ? calendarOf(text('window'), unit, zone) : windowOf(parse(text('window')), unit);
  if (!requests || !per || (slots && !parse(slots)) || !fits({ calendar, algorithm, zone, slots, denied })) return '';
  const notify = alerts(text('notify'), denied);
  if (notify === null) return '';
  const counts = field('counts')?.selectedOptions[0].dataset.mark ?? '';
  const parts = [`${figure(requests)}${counts} per ${per}`, field('algorithm').selectedOptions[0].dataset.mark];
  if (denied) parts.push('denied calls count');
  if (slots) parts.push(`${figure(parse(slots))} slots`);
  parts.push(notify, field('mode')?.selectedOptions[0].dataset.mark);
  return parts.filter(Boolean).join(', ');
}

document.addEventListener('input', (event) => {
  const row = event.target.closest('#form fieldset.row');
  if (row) row.querySelector('output').textContent = words(row);
});
