package templates

// DenialsSummary says what denied the calls of the period.
type DenialsSummary struct {
	Lead    []Phrase
	Figures []Figure
	Chart   *TimeSeries // nil without denials
	Tops    []Top
}

// Top ranks values by their denied calls.
type Top struct {
	Heading string
	Rows    []TopRow
}

// TopRow is a value of a Top. Its address filters by it; empty if nothing lists it.
type TopRow struct{ Text, Calls, Share, Address string }
