// Package verify is the command that calls a deployment of Tidegate and reports where AWS,
// or the account's configuration, differs from this repository's expectations. It reads
// the text of every row from rows.md, and -list prints them.
package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"tidegate/internal/awscli"
	"tidegate/local/cli"
)

// Exit statuses.
const (
	allAsExpected = iota
	somethingDiffers
)

const about = `Calls a deployment of Tidegate, or the gateways of scripts/run, and prints in a table
which expectations about AWS hold. Changes nothing without -token, and reverts the changes
that it makes with -token. Prints the calls that it will make first.

  verify -rest URL -http URL -dashboard URL -key KEY [flags]
  verify -stack NAME -key KEY [flags]   reads the stack's outputs with the AWS command line
  verify -log ADDRESS               reads a log of changes, s3://BUCKET[/PREFIX] or a folder:
                                    each change must be whole and have the hash of the one
                                    before; KEY_PEPPER is that of the functions
  verify -list                      every row: how it is checked, what is expected, what to do
  ./scripts/verify -preflight [-template] STAGE
                                    reads the account with the AWS command line, version 1 or
                                    2, and says what would make the first deployment of the
                                    stage fail; with -template, of the published template.
                                    Exit status: 1 for an obstacle, 2 if something could not
                                    be read

VERIFY_KEY and VERIFY_TOKEN in the environment replace -key and -token, which other users
of the machine can see. Exit status: 0 when everything is as expected, 1 when something
differs, 2 for bad usage.
`

// Run runs the command and returns its exit status. It writes the table to out, and the
// plan and the progress to errOut.
func Run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	o, err := parseOptions(args, getenv, out)
	if err == nil && o.list {
		list(out)
		return allAsExpected
	}
	if err == nil && o.log != "" {
		return verifyLog(ctx, o.log, getenv, out, errOut)
	}
	aws, _ := awscli.Find() // nil if there is none
	if err == nil {
		err = o.complete(ctx, aws)
	}
	if err != nil {
		return cli.Refuse("verify", err, errOut)
	}
	return verify(ctx, newSession(o), out, errOut)
}

// verify makes all calls and writes the report. It returns the exit status.
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
	if err := r.write(s.json, s.secrets()); err != nil {
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
	path, method, body    string // of the calls on both APIs
	key, token            string
	stack                 string
	json                  string
	log                   string
	list                  bool
}

// Environment variables for the secrets. Other users can see the arguments of a process,
// but not its environment.
const (
	keyVariable   = "VERIFY_KEY"
	tokenVariable = "VERIFY_TOKEN"
)

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("verify", flag.ContinueOnError)
	f.StringVar(&o.rest, "rest", "", "`URL` of the REST API, with its stage")
	f.StringVar(&o.http, "http", "", "`URL` of the HTTP API")
	f.StringVar(&o.dashboard, "dashboard", "", "`URL` of the dashboard")
	f.StringVar(&o.path, "path", examplePath,
		"`path` of the calls on both APIs, which reach the backend;\n"+
			"rows on other paths need the example APIs")
	f.StringVar(&o.method, "method", http.MethodGet, "`method` of these calls")
	f.StringVar(&o.body, "body", "", "`JSON` of these calls")
	f.StringVar(&o.key, "key", "", "an API `key` of a plan of 10 per 10 seconds: its limit is used up\n"+
		"several times")
	f.StringVar(&o.token, "token", "",
		"a machine `token` of scope write: sets and removes an override of\n"+
			"the key, to check that edits act on the next check")
	f.StringVar(&o.stack, "stack", "", "`name` of the stack whose outputs have the URLs that are not given")
	f.StringVar(&o.json, "json", "", "write the table to this `file` as JSON")
	f.StringVar(&o.log, "log", "", "read the log of changes at this `address`, and nothing else")
	f.BoolVar(&o.list, "list", false, "print every row")
	return f
}

func parseOptions(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	if err := cli.Parse(o.flags(), args, about, out); err != nil {
		return o, err
	}
	o.key = cmp.Or(o.key, getenv(keyVariable))
	o.token = cmp.Or(o.token, getenv(tokenVariable))
	return o, o.validate()
}

// stackName matches names of stacks. Such a name cannot be a flag of the AWS CLI.
var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

// maxSecret is the maximum length of the key and of the token. It leaves room for the
// other headers in API Gateway's maximum of all headers.
const maxSecret = 4096

// visible matches the characters of header values.
var visible = regexp.MustCompile(`^[\x21-\x7e]*$`)

func (o *options) validate() error {
	if err := o.validateCall(); err != nil {
		return err
	}
	if o.stack != "" && !stackName.MatchString(o.stack) {
		return errors.New("-stack: must be the name of a stack, such as tidegate-dev")
	}
	for name, secret := range map[string]string{"-key": o.key, "-token": o.token} {
		if !visible.MatchString(secret) || len(secret) > maxSecret {
			return fmt.Errorf("%s: must be up to %d visible ASCII characters", name, maxSecret)
		}
	}
	if info, err := os.Stat(filepath.Dir(o.json)); err != nil || !info.IsDir() {
		return fmt.Errorf("-json %s: its folder does not exist", o.json)
	}
	return nil
}

// examplePath is a path of the example APIs.
const examplePath = "/verify"

// methodName matches methods of calls. OPTIONS is the preflight's.
var methodName = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE)$`)

// maxBody bounds the body in bytes.
const maxBody = 64 << 10

// validateCall validates what the calls on the APIs consist of.
func (o *options) validateCall() error {
	u, err := url.Parse(o.path)
	switch {
	case err != nil || !strings.HasPrefix(o.path, "/") || u.Host != "" || u.Fragment != "" ||
		!visible.MatchString(o.path):
		return errors.New("-path: must be a path with a leading slash, such as /orders/1")
	case !methodName.MatchString(o.method):
		return errors.New("-method: must be GET, POST, PUT, PATCH or DELETE")
	case o.body != "" && o.method == http.MethodGet:
		return errors.New("-body: needs -method, since a GET has none")
	case len(o.body) > maxBody || o.body != "" && !json.Valid([]byte(o.body)):
		return fmt.Errorf("-body: must be JSON of up to %d bytes", maxBody)
	}
	return nil
}

// address is a URL to check, its flag, and the stack's output with this URL.
type address struct {
	flag, output string
	url          *string
}

func (o *options) addresses() []address {
	return []address{{"-rest", "ExampleRestUrl", &o.rest}, {"-http", "ExampleHttpUrl", &o.http},
		{"-dashboard", "DashboardUrl", &o.dashboard}}
}

// complete reads the missing URLs, and validates all of them.
func (o *options) complete(ctx context.Context, aws awscli.Command) error {
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
			return fmt.Errorf("%s: must be a URL without query and user, such as "+
				"https://api.example.com/prod", a.flag)
		}
		*a.url = strings.TrimRight(*a.url, "/")
	}
	if given == 0 {
		return errors.New("no URL to check: set -rest, -http, -dashboard or -stack")
	}
	if o.key == "" && (o.rest != "" || o.http != "") {
		return errors.New("-key is missing: create a key with a plan of 10 per 10 seconds in the dashboard")
	}
	if o.token != "" && (o.rest == "" || o.dashboard == "") {
		return errors.New("-token needs -dashboard, to set an override, and -rest, to check it")
	}
	return nil
}

// readOutputs sets the URLs that are missing from the outputs of the stack.
func (o *options) readOutputs(ctx context.Context, aws awscli.Command) error {
	if o.stack == "" {
		return nil
	}
	outputs, err := outputsOfStack(ctx, aws, o.stack)
	for _, a := range o.addresses() {
		*a.url = cmp.Or(*a.url, outputs[a.output])
	}
	return err
}

func outputsOfStack(ctx context.Context, aws awscli.Command, stack string) (map[string]string, error) {
	if aws == nil {
		return nil, errors.New("-stack: aws, which reads the outputs, is not on PATH: " +
			"set -rest, -http or -dashboard")
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
	outputs := map[string]string{}
	for _, output := range list {
		outputs[output.OutputKey] = output.OutputValue
	}
	return outputs, nil
}
