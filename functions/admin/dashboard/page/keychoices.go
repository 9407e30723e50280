package page

import (
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// KeyChoices offers keys that a text names, each with an address. more says that there
// are others.
func KeyChoices(keys []policy.Key, more bool, address func(policy.Key) string) *templates.KeyChoices {
	c := &templates.KeyChoices{Lead: "Several keys have such a name. Which one?"}
	if more {
		c.Lead = "The first " + Number(int64(len(keys))) + " keys whose names begin so. Type more, or choose:"
	}
	for _, k := range keys {
		c.Keys = append(c.Keys,
			templates.KeyChoice{Name: Clip(k.Name, MaxName), ID: k.ID, Address: address(k)})
	}
	return c
}
