// Package sitetest starts the whole admin site for a test, on stores of its own: the
// server with the pages and the API, and a client or a tab of Chromium on it. Tests of the
// server and of the pages use it from outside; nothing else may.
package sitetest
