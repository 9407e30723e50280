// Command model prints the size and the cost of deployments for given rates of checks,
// and the cost of other rate limiters for the same calls.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"tidegate/infra/scale"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// maxRate is the maximum of -rates, in checks a second.
const maxRate = 1e7

// run returns the exit status: 0, or 2 after an error.
func run(args []string, out, errOut io.Writer) int {
	measured, err := scale.Recorded()
	if err == nil {
		err = printModel(args, scale.Default(measured), out)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(errOut, "model: %v\n", err)
		return 2
	}
	return 0
}

func printModel(args []string, a scale.Assumptions, out io.Writer) error {
	f := flag.NewFlagSet("model", flag.ContinueOnError)
	f.SetOutput(out)
	rates := f.String("rates", "100,1000,10000,100000,1000000",
		"comma-separated rates in checks a `second`")
	f.Float64Var(&a.Keys, "keys", a.Keys, "number of API `keys`, 0 to 1e9")
	f.Float64Var(&a.Busy, "busy", a.Busy, "maximum load of a shard's `core`, 0.05 to 1")
	f.IntVar(&a.Replicas, "replicas", a.Replicas, "replicas of each shard, 0 to 5")
	if err := f.Parse(args); err != nil {
		return err
	}
	list, err := parse(*rates)
	switch {
	case err != nil:
		return err
	case !(a.Keys >= 0 && a.Keys <= 1e9):
		return fmt.Errorf("-keys %g: must be 0 to 1e9", a.Keys)
	case !(a.Busy >= .05 && a.Busy <= 1):
		return fmt.Errorf("-busy %g: must be 0.05 to 1", a.Busy)
	case a.Replicas < 0 || a.Replicas > 5:
		return fmt.Errorf("-replicas %d: must be 0 to 5", a.Replicas)
	}
	_, err = fmt.Fprintf(out, "%s\n%s\n%s\n%s", a.Inputs(), a.Sizes(list), a.Comparison(list), a.Promises())
	return err
}

func parse(text string) ([]float64, error) {
	var rates []float64
	for part := range strings.SplitSeq(text, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(rate >= 1 && rate <= maxRate) {
			return nil, fmt.Errorf("-rates %s: each must be 1 to %g", text, maxRate)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}
