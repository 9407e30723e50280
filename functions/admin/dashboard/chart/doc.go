// Package chart draws calls over time: an SVG, a table of the same figures, and the data
// from which the browser's script draws.
package chart
