// Command infra is the CDK app that provisions Tidegate: network, ElastiCache for Valkey,
// both functions, the dashboard's API, alarms, and example APIs that show how the
// authorizer is attached. cdk.json runs it; see docs/deploy.md.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"tidegate/infra/settings"
)

func main() {
	if err := run(os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	build := &build{root: root}
	app := awscdk.NewApp(nil)
	given, err := contextFlags(app)
	if err != nil {
		return err
	}
	props, err := stageProps(settings.StageFolder, given)
	if err != nil {
		return err
	}
	if given["stage"] == "" {
		fmt.Fprintln(out, "This is stage dev. -c stage=NAME chooses another one.")
	}
	_, err = synthesise(app, props, build.code)
	if build.err != nil {
		return build.err // the CDK's own error does not have the cause
	}
	return err
}

// codeOf returns the zip of a function by its name.
type codeOf func(name string) awslambda.Code

// stageProps returns the props of a stage from its file in the folder. Only dev needs no
// file: its flags may be in the context.
func stageProps(folder string, given map[string]string) (settings.Props, error) {
	stage := cmp.Or(given["stage"], "dev")
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return settings.Props{}, err
	}
	if file == nil && stage == "dev" {
		return settings.Read(given)
	}
	if file == nil {
		return settings.Props{}, fmt.Errorf("infra/%s/%s.json is missing: ./scripts/stage %[2]s makes it",
			folder, stage)
	}
	for name, value := range given {
		if name != "stage" && name != "nag" {
			return settings.Props{}, fmt.Errorf("-c %s=%s: the stage's file has its flags, so that the next "+
				"deployment has them too: ./scripts/stage %s %[1]s=%[2]s", name, value, stage)
		}
	}
	props, err := file.Props(stage)
	props.Nag = given["nag"] == "true"
	return props, err
}

// synthesise writes the cloud assembly for valid props. The CDK panics with a readable
// text on errors.
func synthesise(app awscdk.App, props settings.Props, code codeOf) (s *Stack, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	s = NewStack(app, props, code)
	if props.Nag {
		s.inspect(app)
	}
	app.Synth(nil)
	return s, nil
}

// contextFlags returns the flags in the CDK's context. Names with a colon or a slash are
// the CDK's own, and are left out.
func contextFlags(app awscdk.App) (map[string]string, error) {
	all, ok := app.Node().GetAllContext(nil).(map[string]any)
	if !ok {
		return nil, errors.New("the CDK's context is not a map")
	}
	flags := map[string]string{}
	for name, value := range all {
		if !strings.ContainsAny(name, ":/") {
			flags[name] = fmt.Sprint(value)
		}
	}
	return flags, nil
}
