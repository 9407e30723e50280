package app

import (
	"strings"

	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// partCursor begins the positions among the names that contain Prefix behind their start.
const partCursor = "~"

// cursor returns the position behind a key.
func (f KeyFilter) cursor(k policy.Key) string {
	if f.Anywhere && !strings.HasPrefix(strings.ToLower(k.Name), strings.ToLower(f.Prefix)) {
		return partCursor + registry.Cursor(k)
	}
	return registry.Cursor(k)
}
