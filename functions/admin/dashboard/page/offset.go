package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Offset writes an instant counted from a start, to the microsecond: "0 s", "1.5 s", "2
// min 0.06 s", "3 d 4 h". No line breaks between a number and its unit.
func Offset(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d\u00a0%s", n, unit.name))
			d %= unit.size
		}
	}
	if d > 0 || len(parts) == 0 {
		parts = append(parts, strconv.FormatFloat(float64(d.Microseconds())/1e6, 'f', -1, 64)+"\u00a0s")
	}
	return strings.Join(parts, " ")
}
