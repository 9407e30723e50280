// Command stage makes and changes the file of a stage, which has the flags of its
// deployments. ./scripts/stage builds it and passes on its arguments.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tidegate/infra/settings"
)

const usage = "Usage: ./scripts/stage [-new] STAGE [FLAG=VALUE]…\n\n" +
	"FLAG= takes a flag out. docs/deploy.md lists the flags.\n\n"

func main() {
	if err := run("infra", os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

func run(app string, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("stage", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		_, _ = io.WriteString(out, usage)
		f.PrintDefaults()
	}
	anew := f.Bool("new", false, "forget the file of a stage whose stack does not exist")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return errors.New("name the stage, such as dev or prod (-h shows more)")
	}
	stage, folder := f.Arg(0), filepath.Join(app, settings.StageFolder)
	values, err := assignments(f.Args()[1:])
	if err != nil {
		return err
	}
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return err
	}
	made := file == nil || *anew
	if made {
		file = &settings.StageFile{}
	}
	if made && len(values) == 0 {
		if err := ask(file, stage, bufio.NewScanner(in), out); err != nil {
			return err
		}
	}
	before := maps.Clone(file.Flags)
	if err := file.Set(stage, values); err != nil {
		return err
	}
	if made || len(values) > 0 {
		if err := file.Write(folder, stage); err != nil {
			return err
		}
	}
	describe(file, before, stage, out)
	return nil
}

func assignments(args []string) (map[string]string, error) {
	values := map[string]string{}
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q: must be FLAG=VALUE", arg)
		}
		values[name] = value
	}
	return values, nil
}

// question asks for a flag of a new stage.
type question struct{ flag, text string }

// questions ask for what cannot change later, and for what people regret to have left out.
var questions = []question{
	{"store", "Cache, which cannot change later: serverless, or nodes"},
	{"zones", "Zones, which cannot change later: 2 or 3 names, or the region's first two"},
	{"cidr", "Network, which cannot change later: an IPv4 range"},
	{"alarmEmail", "Who gets the alarms: an email address, or nobody"},
}

// ask asks the questions. An empty answer is the default, and a wrong one is asked again.
func ask(file *settings.StageFile, stage string, in *bufio.Scanner, out io.Writer) error {
	for i := 0; i < len(questions); i++ {
		q := questions[i]
		_, _ = fmt.Fprintf(out, "%s\n%s [default]: ", q.text, q.flag)
		if !in.Scan() {
			return errors.Join(fmt.Errorf("no answer for %s; nothing was written", q.flag), in.Err())
		}
		next := settings.StageFile{Flags: file.Flags}
		if err := next.Set(stage, map[string]string{q.flag: strings.TrimSpace(in.Text())}); err != nil {
			_, _ = fmt.Fprintln(out, err)
			i--
			continue
		}
		*file = next
	}
	return nil
}

// describe prints the file's flags, what changed, and how to deploy it.
func describe(file *settings.StageFile, before map[string]string, stage string, out io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(file.Flags)) {
		note := ""
		if was := before[name]; was != file.Flags[name] {
			note = "   was " + orDefault(was)
		}
		_, _ = fmt.Fprintf(out, "%s=%s%s\n", name, file.Flags[name], note)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if file.Flags[name] == "" {
			_, _ = fmt.Fprintf(out, "%s is the default now   was %s\n", name, before[name])
		}
	}
	_, _ = fmt.Fprintf(out, "cannot change once it is deployed: %s\n",
		strings.Join(slices.Sorted(maps.Keys(file.Fixed)), ", "))
	_, _ = fmt.Fprintf(out, "infra/%s/%s.json has them: keep it. Deploy it in infra/ with "+
		"npx cdk deploy -c stage=%[2]s\n", settings.StageFolder, stage)
}

func orDefault(value string) string {
	if value == "" {
		return "the default"
	}
	return value
}
