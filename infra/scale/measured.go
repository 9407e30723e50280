package scale

import (
	_ "embed" // the recorded measurements
	"encoding/json"
	"fmt"
	"strings"
)

// measuredJSON is written by ./scripts/bench scale -record infra/scale/measured.json.
//
//go:embed measured.json
var measuredJSON []byte

// growthJSON is written by the same command.
//
//go:embed growth.json
var growthJSON []byte

// Measured has the results of ./scripts/bench scale on one machine.
type Measured struct {
	Machine string `json:"machine"`
	Day     string `json:"day"`
	Figures []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
		Unit  string  `json:"unit"`
	} `json:"figures"`
}

// Recorded returns the last measurement.
func Recorded() (*Measured, error) { return parse("measured.json", measuredJSON) }

// RecordedGrowth returns the last measurement of checks by environments and shards.
func RecordedGrowth() (*Measured, error) { return parse("growth.json", growthJSON) }

func parse(name string, text []byte) (*Measured, error) {
	m := &Measured{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// Value returns the figure "scale."+name; 0 if it was not measured.
func (m *Measured) Value(name string) float64 {
	for _, f := range m.Figures {
		if f.Name == "scale."+name {
			return f.Value
		}
	}
	return 0
}

// keyCounts returns the numbers of keys with which memory was measured, in the file's
// order.
func (m *Measured) keyCounts() []int {
	var counts []int
	for _, f := range m.Figures {
		var n int
		if strings.HasSuffix(f.Name, ".registered_bytes") {
			if _, err := fmt.Sscanf(f.Name, "scale.memory.keys%d.", &n); err == nil {
				counts = append(counts, n)
			}
		}
	}
	return counts
}
