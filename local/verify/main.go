// Command verify calls a deployment of Tidegate and reports where AWS, or the account's
// configuration, differs from this repository's expectations. docs/verify.md lists them:
// its tables have the words of the rows. ./scripts/verify builds it and passes its flags
// on.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	allAsExpected = iota
	somethingDiffers
	badUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run returns the exit status. The table goes to out, the plan and the progress to
// errOut.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parseOptions(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(out, usage())
		return allAsExpected
	}
	aws := findAWS()
	if err == nil {
		err = o.complete(ctx, aws)
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "verify: %v (-h shows all flags)\n", err)
		return badUsage
	}
	return verify(ctx, newSession(o, aws), out, errOut)
}

// verify makes the calls of all probes and writes the report.
func verify(ctx context.Context, s *session, out, errOut io.Writer) int {
	defer s.close()
	out, errOut = s.redacted(out), s.redacted(errOut)
	s.announce(errOut)
	r := s.collect(ctx, errOut)
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(errOut, "verify: interrupted")
		return somethingDiffers
	}
	r.print(out)
	if err := r.write(s.options, s.secrets()); err != nil {
		_, _ = fmt.Fprintf(errOut, "verify: %v\n", err)
		return somethingDiffers
	}
	if r.Differs > 0 {
		return somethingDiffers
	}
	return allAsExpected
}

// options are the flags.
type options struct {
	rest, http, dashboard string
	key, token            string
	outputs, stack        string
	throttle              bool
	markdown, json        string
}

// Environment variables for secrets, which other users could see in the arguments of a
// process.
const (
	keyVariable   = "VERIFY_KEY"
	tokenVariable = "VERIFY_TOKEN"
)

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("verify", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints errors and help itself
	f.StringVar(&o.rest, "rest", "", "`URL` of a REST API behind Tidegate, with its stage")
	f.StringVar(&o.http, "http", "", "`URL` of an HTTP API behind Tidegate")
	f.StringVar(&o.dashboard, "dashboard", "", "`URL` of the dashboard")
	f.StringVar(&o.key, "key", "", "an API `key`; "+keyVariable+" in the environment is used without it")
	f.StringVar(&o.token, "token", "",
		"a machine `token` with scope write, to set and end an override of the key; or "+tokenVariable)
	f.StringVar(&o.outputs, "outputs", "",
		"`file` that cdk deploy --outputs-file wrote, for URLs that are not given")
	f.StringVar(&o.stack, "stack", "", "`name` of the stack, for the rows that the AWS command line checks")
	f.BoolVar(&o.throttle, "throttle", false,
		"also makes bursts of calls, to see the throttles of API Gateway")
	f.StringVar(&o.markdown, "markdown", "", "`file` for the table as Markdown")
	f.StringVar(&o.json, "json", "", "`file` for the table as JSON")
	return f
}

func parseOptions(args []string, getenv func(string) string) (options, error) {
	var o options
	f := o.flags()
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q is not a flag", f.Arg(0))
	}
	o.key = cmp.Or(o.key, getenv(keyVariable))
	o.token = cmp.Or(o.token, getenv(tokenVariable))
	return o, o.validate()
}

// stackName makes sure that a name is not parsed as a flag of another program.
var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

// maxSecret is API Gateway's maximum of all headers without the length of the other
// headers.
const maxSecret = 4096

// visible matches the characters of header values.
var visible = regexp.MustCompile(`^[\x21-\x7e]*$`)

func (o *options) validate() error {
	if o.stack != "" && !stackName.MatchString(o.stack) {
		return errors.New("-stack: write the name of a stack, such as tidegate-dev")
	}
	for name, secret := range map[string]string{"-key": o.key, "-token": o.token} {
		if !visible.MatchString(secret) || len(secret) > maxSecret {
			return fmt.Errorf("%s: must be up to %d visible ASCII characters", name, maxSecret)
		}
	}
	for name, file := range map[string]string{"-markdown": o.markdown, "-json": o.json} {
		if info, err := os.Stat(filepath.Dir(file)); file != "" && (err != nil || !info.IsDir()) {
			return fmt.Errorf("%s %s: its folder does not exist", name, file)
		}
	}
	return nil
}

// address is a URL to check, with its flag and the output of infra that has it.
type address struct {
	flag, output string
	url          *string
}

func (o *options) addresses() []address {
	return []address{{"-rest", "ExampleRestUrl", &o.rest}, {"-http", "ExampleHttpUrl", &o.http},
		{"-dashboard", "DashboardUrl", &o.dashboard}}
}

// complete reads the missing URLs, and validates all of them.
func (o *options) complete(ctx context.Context, aws awsCommand) error {
	if err := o.readOutputs(ctx, aws); err != nil {
		return err
	}
	given := 0
	for _, a := range o.addresses() {
		if *a.url == "" {
			continue
		}
		given++
		parsed, err := url.Parse(*a.url)
		if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" ||
			parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
			return fmt.Errorf("%s: write a URL without query and user, such as https://api.example.com/prod",
				a.flag)
		}
		*a.url = strings.TrimRight(*a.url, "/")
	}
	if given == 0 {
		return errors.New("nothing to check: give -rest, -http, -dashboard, or -outputs")
	}
	if o.key == "" && (o.rest != "" || o.http != "") {
		return errors.New("-key is missing: make one of a plan of 10 per 10 seconds in the dashboard")
	}
	if o.token != "" && (o.rest == "" || o.dashboard == "") {
		return errors.New("-token needs -rest and -dashboard: an override is set there and seen here")
	}
	return nil
}

// readOutputs reads the outputs from the file, or from the stack if there is no URL.
func (o *options) readOutputs(ctx context.Context, aws awsCommand) error {
	var outputs map[string]any
	var err error
	switch {
	case o.outputs != "":
		outputs, err = o.outputsOfFile()
	case o.stack != "" && o.rest+o.http+o.dashboard == "":
		outputs, err = outputsOfStack(ctx, aws, o.stack)
	}
	if err != nil {
		return err
	}
	for _, a := range o.addresses() {
		if found, isText := outputs[a.output].(string); isText && *a.url == "" {
			*a.url = found
		}
	}
	return nil
}

func (o *options) outputsOfFile() (map[string]any, error) {
	text, err := os.ReadFile(o.outputs)
	if err != nil {
		return nil, fmt.Errorf("-outputs: %w", err)
	}
	var stacks map[string]map[string]any
	if err := json.Unmarshal(text, &stacks); err != nil {
		return nil, fmt.Errorf("-outputs %s: not what cdk deploy --outputs-file writes: %w", o.outputs, err)
	}
	if o.stack == "" && len(stacks) == 1 {
		o.stack = slices.Collect(maps.Keys(stacks))[0]
	}
	outputs, known := stacks[o.stack]
	if !known {
		return nil, fmt.Errorf("-outputs %s has %d stacks: name one of them with -stack",
			o.outputs, len(stacks))
	}
	return outputs, o.validate()
}

func outputsOfStack(ctx context.Context, aws awsCommand, stack string) (map[string]any, error) {
	if aws == nil {
		return nil, errors.New("-stack: aws is not on PATH to read its outputs: " +
			"give -rest, -http, -dashboard, or -outputs")
	}
	text, err := aws(ctx, "cloudformation", "describe-stacks", "--stack-name", stack,
		"--query", "Stacks[0].Outputs")
	if err != nil {
		return nil, fmt.Errorf("-stack %s: %w", stack, err)
	}
	var list []struct{ OutputKey, OutputValue string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("-stack %s: outputs: %w", stack, err)
	}
	outputs := map[string]any{}
	for _, output := range list {
		outputs[output.OutputKey] = output.OutputValue
	}
	return outputs, nil
}

// usage is the text of -h.
func usage() string {
	var text strings.Builder
	var o options
	f := o.flags()
	f.SetOutput(&text)
	text.WriteString(`Checks a deployment of Tidegate against what this repository expects of AWS.
docs/verify.md lists every row.

Usage: ./scripts/verify -rest URL -http URL -dashboard URL -key KEY [flags]

`)
	f.PrintDefaults()
	text.WriteString(`
The key's plan should be 10 per 10 seconds: verify uses its limit up. All paths below the URLs need
the authorizer. Nothing is changed, except with -token: the key has an override for some seconds, and
the audit keeps both edits. The AWS command line is used where it is on PATH and -stack or -outputs
names the stack, with commands that read.

Exit status: 0 all as expected, 1 something differs or verify was interrupted, 2 bad usage.
`)
	return text.String()
}
