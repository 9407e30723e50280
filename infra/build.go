package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// findRoot returns the repository's folder.
func findRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "scripts", "build")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "",
				errors.New("no scripts/build in this folder or above: run this inside Tidegate's repository")
		}
		folder = above
	}
}

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
