// Command model prints the size of a deployment for given rates of checks. It compares
// the cost of a million checks with that of other ways to limit.
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

const mostRate = 1e7

// run returns the exit status: 2 for bad flags.
func run(args []string, out, errOut io.Writer) int {
	measured, err := scale.Recorded()
	if err == nil {
		err = show(args, scale.Default(measured), out)
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

func show(args []string, a scale.Assumptions, out io.Writer) error {
	f := flag.NewFlagSet("model", flag.ContinueOnError)
	f.SetOutput(out)
	rates := f.String("rates", "100,1000,10000,100000,1000000", "checks a `second`, with commas between them")
	f.Float64Var(&a.Keys, "keys", a.Keys, "how many API `keys` there are")
	f.Float64Var(&a.Busy, "busy", a.Busy, "how busy a shard's `core` may be, 0.05 to 1")
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
		if err != nil || !(rate >= 1 && rate <= mostRate) {
			return nil, fmt.Errorf("-rates %s: each must be 1 to %g", text, mostRate)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}
