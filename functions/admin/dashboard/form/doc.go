// Package form reads the inputs of the dashboard's forms and shows them again with what
// is wrong: limits, ends, lists, numbers and reasons. It knows no page and reads nothing
// from Valkey.
package form
