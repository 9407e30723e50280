// The limits form says in words what each row means while it is typed. The server says the same after a round trip.

const grouped = /^\d{1,3}([,\s]\d{3})+$/;

function parse(text) {
  const trimmed = text.trim();
  if (!/^\d+$/.test(trimmed) && !grouped.test(trimmed)) return 0;
  return Number(trimmed.replace(/[,\s]/g, ''));
}

function words(row) {
  const field = (name) => row.querySelector(`[name$=".${name}"]`).value;
  const requests = parse(field('requests'));
  const count = parse(field('window'));
  if (!requests || !count) return '';
  const unit = field('unit');
  return `${requests.toLocaleString('en-US')} per ${count.toLocaleString('en-US')} ${unit}${count === 1 ? '' : 's'}`;
}

document.getElementById('limits-form')?.addEventListener('input', (event) => {
  const row = event.target.closest('fieldset');
  if (row) row.querySelector('output').textContent = words(row);
});
