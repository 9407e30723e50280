// Command infra is the CDK app that deploys a stage of Tidegate. cdk.json runs it. With
// -template FILE it writes the template that needs neither the CDK nor a bootstrapped
// account. See docs/deploy.md.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/infra/tidegate"
)

func main() {
	file := flag.String("template", "", "write the template with parameters to this file")
	flag.Parse()
	run := deploy
	if *file != "" {
		run = func() error { return writeTemplate(*file) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

// deploy writes the cloud assembly of the stage that -c stage=NAME names.
func deploy() error {
	app := awscdk.NewApp(nil)
	given, _ := app.Node().TryGetContext(jsii.String("stage")).(string)
	if given == "" {
		fmt.Fprintln(os.Stderr, "This is stage dev. -c stage=NAME chooses another one.")
	}
	props, err := stageProps(settings.StageFolder, cmp.Or(given, "dev"))
	if err != nil {
		return err
	}
	code, err := build(repositoryFolder)
	if err != nil {
		return err
	}
	return synthesise(app, func() { newStack(app, props, code) })
}

// stageProps returns the props of a stage from its file in the folder. Only dev needs no
// file.
func stageProps(folder, stage string) (settings.Props, error) {
	file, err := settings.ReadStage(folder, stage)
	if err != nil {
		return settings.Props{}, err
	}
	if file == nil && stage != "dev" {
		return settings.Props{}, fmt.Errorf("infra/%s/%s.json is missing: ./scripts/stage %[2]s makes it",
			folder, stage)
	}
	return cmp.Or(file, &settings.StageFile{}).Props(stage)
}

// newStack makes the stack of a stage.
func newStack(app awscdk.App, props settings.Props, code func(string) awslambda.Code) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String(props.Name()), &awscdk.StackProps{
		Description:           jsii.String("Tidegate: a rate limiter for API Gateway (" + props.Stage + ")"),
		TerminationProtection: jsii.Bool(props.Keep),
	})
	limits := tidegate.NewTidegate(stack, jsii.String("Default"), &tidegate.Props{Props: props, Code: code})
	if props.Example {
		tidegate.Tag(stack, &props)
		newExample(stack, &props, limits)
	}
	limits.AddOutputs()
	return stack
}

// writeTemplate writes the template with parameters.
func writeTemplate(file string) error {
	folder, err := os.MkdirTemp("", "tidegate-template")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	text, err := synthesiseTemplate(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// newApp returns an app with the context of cdk.json and more, which writes to a folder.
func newApp(folder string, more map[string]any) (awscdk.App, error) {
	text, err := os.ReadFile("cdk.json")
	if err != nil {
		return nil, err
	}
	var config struct{ Context map[string]any }
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	maps.Copy(config.Context, more)
	return awscdk.NewApp(&awscdk.AppProps{Context: &config.Context, Outdir: &folder,
		AnalyticsReporting: jsii.Bool(false)}), nil
}

// synthesiseTemplate returns the template with parameters.
func synthesiseTemplate(folder string) ([]byte, error) {
	// The CDK's own validation takes a parameter's empty default for its value, whatever the
	// conditions. Tests lint the template.
	app, err := newApp(folder, map[string]any{"@aws-cdk/core:validateAgainstDefaultRules": false})
	if err != nil {
		return nil, err
	}
	err = synthesise(app, func() {
		stack := awscdk.NewStack(app, jsii.String("tidegate"), &awscdk.StackProps{
			Description: jsii.String("Tidegate: a rate limiter for API Gateway"),
			Synthesizer: awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{
				GenerateBootstrapVersionRule: jsii.Bool(false)}),
		})
		tidegate.NewTemplate(stack).AddOutputs()
	})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "tidegate.template.json"))
	if err != nil {
		return nil, err
	}
	var template any
	err = json.Unmarshal(text, &template)
	return append(readable(template, ""), '\n'), err
}

// width is the maximum length of a line that readable does not break.
const width = 100

// readable encodes a JSON value for readers: objects and lists that fit stand in one line.
func readable(value any, indent string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // what was decoded always encodes
	line := bytes.TrimSpace(b.Bytes())
	if len(indent)+len(line) <= width {
		return line
	}
	var parts [][]byte
	inner, ends := indent+" ", "{}"
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, append([]byte(inner+strconv.Quote(name)+": "), readable(v[name], inner)...))
		}
	case []any:
		ends = "[]"
		for _, item := range v {
			parts = append(parts, append([]byte(inner), readable(item, inner)...))
		}
	default:
		return line
	}
	return fmt.Appendf(nil, "%c\n%s\n%s%c", ends[0], bytes.Join(parts, []byte(",\n")), indent, ends[1])
}

// synthesise writes the cloud assembly of an app. The CDK panics with a readable text on
// errors.
func synthesise(app awscdk.App, compose func()) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	compose()
	app.Synth(nil)
	return nil
}
