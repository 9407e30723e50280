// Package sitetest starts the whole admin site for a test, with its own Valkey: the
// server with pages and API, and a client or a Chromium tab. Only tests of the server and
// of the pages import it.
package sitetest
