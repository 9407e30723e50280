// Package simulate is the pages that try limits out on made-up or recorded traffic. They
// read nothing from the store and change nothing.
package simulate
