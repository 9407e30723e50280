// Command stage makes and changes the file of a stage, which has the settings of its
// deployments. ./scripts/stage builds it and passes on its arguments.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
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

const usage = "Usage: ./scripts/stage [-new] STAGE [NAME=VALUE]…\n\n" +
	"NAME= takes a setting out. docs/deploy.md lists the settings. Variables of the functions are\n" +
	"check.VARIABLE=VALUE and admin.VARIABLE=VALUE.\n\n"

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
	before := texts(file.Settings)
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
			return nil, fmt.Errorf("%q: must be NAME=VALUE", arg)
		}
		values[name] = value
	}
	return values, nil
}

// question asks for a setting of a new stage.
type question struct{ name, text string }

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
		_, _ = fmt.Fprintf(out, "%s\n%s [default]: ", q.text, q.name)
		if !in.Scan() {
			return errors.Join(fmt.Errorf("no answer for %s; nothing was written", q.name), in.Err())
		}
		next := settings.StageFile{Settings: file.Settings}
		if err := next.Set(stage, map[string]string{q.name: strings.TrimSpace(in.Text())}); err != nil {
			_, _ = fmt.Fprintln(out, err)
			i--
			continue
		}
		*file = next
	}
	return nil
}

// describe prints the file's settings, what changed, and how to deploy it.
func describe(file *settings.StageFile, before map[string]string, stage string, out io.Writer) {
	now := texts(file.Settings)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		note := ""
		if was := before[name]; was != now[name] {
			note = "   was " + cmp.Or(was, "the default")
		}
		_, _ = fmt.Fprintf(out, "%s=%s%s\n", name, now[name], note)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] == "" {
			_, _ = fmt.Fprintf(out, "%s is the default now   was %s\n", name, before[name])
		}
	}
	_, _ = fmt.Fprintf(out, "cannot change once it is deployed: %s\n",
		strings.Join(slices.Sorted(maps.Keys(file.Fixed)), ", "))
	_, _ = fmt.Fprintf(out, "infra/%s/%s.json has them: keep it. Deploy it in infra/ with "+
		"npx cdk deploy -c stage=%[2]s\n", settings.StageFolder, stage)
}

// texts returns settings as text, by name. Entries have names such as check.JWT_ISSUER.
func texts(values map[string]any) map[string]string {
	all := map[string]string{}
	for name, value := range values {
		switch v := value.(type) {
		case map[string]any:
			for entry, text := range texts(v) {
				all[name+"."+entry] = text
			}
		case []string:
			all[name] = strings.Join(v, ",")
		case json.RawMessage:
			all[name] = string(v)
		case []any:
			all[name] = strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]")
		default:
			all[name] = fmt.Sprint(v)
		}
	}
	return all
}
