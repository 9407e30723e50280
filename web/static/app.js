import 'htmx.org';
import 'htmx.org/dist/ext/hx-csp.js';
import './live.js';
import './limits.js';
import './keyboard.js';
import './theme.js';
import './toast.js';
import './copy.js';
