package cost

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Alternative is the same deployment with another value of a flag.
type Alternative struct {
	Flag       string // name=value
	Deployment Deployment
}

// row returns the table row with the alternative's difference to the given totals.
func (a Alternative) row(idle, perMillion float64) string {
	otherIdle, otherPerMillion := Totals(a.Deployment.Lines())
	return fmt.Sprintf("with -c %s\t%+.2f\t%+.2f\t\t", a.Flag, otherIdle-idle, otherPerMillion-perMillion)
}

// Print writes the table, and below the total the difference of each alternative.
func (d Deployment) Print(w io.Writer, alternatives ...Alternative) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	lines := d.Lines()
	// A tabwriter's errors come with Flush.
	fmt.Fprintln(t, "USD, us-east-1 list prices noted "+PricesNoted+
		"\tper idle month\tper million checks\tarithmetic\tprice source")
	for _, l := range lines {
		fmt.Fprintln(t, l.row())
	}
	idle, perMillion := Totals(lines)
	fmt.Fprintf(t, "Tidegate\t%.2f\t%.2f\t\t\n", idle, perMillion)
	for _, a := range alternatives {
		fmt.Fprintln(t, a.row(idle, perMillion))
	}
	for _, l := range slices.Concat(Calls(), Later()) {
		fmt.Fprintln(t, "in addition, "+l.row())
	}
	return t.Flush()
}

func (l Line) row() string {
	if l.Unknown {
		return fmt.Sprintf("%s\t?\t\t%s\t%s", l.What, l.Arithmetic, l.Source)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", l.What, amount(l.Idle), amount(l.PerMillion),
		l.Arithmetic, l.Source)
}

func amount(usd float64) string {
	if usd == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", usd)
}

// decimal formats a number with as few digits as possible.
func decimal(x float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.10f", x), "0"), ".")
}
