// Package page is what every answer to a browser shares: the frame of a page, errors,
// messages for the next page, addresses, who is asking, and figures in words. The pages
// and the web server use it; it knows neither, and reads nothing from Valkey.
package page
