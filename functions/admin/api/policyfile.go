package api

import (
	"context"
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
)

type (
	fileInput struct {
		rest.IfMatch
		DryRunQuery
		rest.ReasonQuery
		ContentType string `header:"Content-Type" hidden:"true"`
		RawBody     []byte `contentType:"application/yaml"`
	}
	fileOutput struct {
		ContentType string `header:"Content-Type"`
		ETag        string `header:"ETag"`
		Body        []byte
	}
)

func (a *api) registerPolicyFile() {
	group := a.Group("policy")
	rest.Register(group, rest.Operation{
		Pattern: "GET /policy.yaml", ID: "export-policy", Role: auth.Viewer,
		Summary: "The policies as a file in YAML", Answer: "application/yaml",
		Schema: &huma.Schema{Type: huma.TypeString},
	}, a.exportPolicy)
	rest.Register(group, rest.Operation{
		Pattern: "PUT /policy.yaml", ID: "import-policy", Role: auth.Editor, MaxBody: MaxPolicyBody,
		Summary: "Make a file the policies",
		Details: "With dry_run it shows what would change. Otherwise it needs a reason, and the version " +
			"that it is based on: If-Match, or else the version that stands in the file. What is left out " +
			"of the file is removed.",
	}, a.importPolicy)
}

func (a *api) exportPolicy(ctx context.Context, _ *rest.None) (*fileOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	text, err := policydoc.Write(set)
	if err != nil {
		return nil, err
	}
	return &fileOutput{"application/yaml", rest.ETag(set.Version), text}, nil
}

func (a *api) importPolicy(ctx context.Context, in *fileInput) (*rest.VersionedBody[Changes], error) {
	if err := isYAML(in.ContentType); err != nil {
		return nil, err
	}
	file, err := policydoc.Read(in.RawBody)
	if err != nil {
		return nil, err
	}
	save := saving{match: in.IfMatch, dry: in.DryRun, reason: in.Reason}
	if save.match.IfMatch == "" && file.Version > 0 && !save.dry {
		save.match.IfMatch = rest.ETag(file.Version)
	}
	if err := save.ready(); err != nil {
		return nil, err
	}
	current, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	next, err := file.Edit(current)
	if err != nil {
		return nil, err
	}
	return a.save(ctx, current, *next, save)
}

func isYAML(contentType string) error {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "application/yaml", "application/x-yaml", "text/yaml":
		return nil
	}
	return rest.NewProblem(http.StatusUnsupportedMediaType,
		"The body is of a type that is not understood here: send application/yaml.")
}
