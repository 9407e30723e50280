package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// repositoryFolder is the repository's, from infra, where cdk.json runs the app.
const repositoryFolder = ".."

// build builds the functions' zip files with ./scripts/build, and returns each by its
// name. The same sources give the same bytes, and so the same asset.
func build(root string) (func(function string) awslambda.Code, error) {
	command := exec.Command(filepath.Join(root, "scripts", "build"))
	command.Env = append(os.Environ(), "GOARCH=arm64")
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("scripts/build: %w\n%s", err, output)
	}
	return func(function string) awslambda.Code {
		return awslambda.Code_FromAsset(jsii.String(filepath.Join(root, "build", function+".zip")), nil)
	}, nil
}
