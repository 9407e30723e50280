package main

// handRows need a deployment, a deletion, money or days, so a person checks them.
var handRows = []row{
	{
		id:       "hand-terraform",
		what:     "An identity source that every call has, which Terraform needs",
		source:   "Terraform provider, issues #12069 and #39689: an empty one is refused",
		how:      "`infra/attach/terraform.tf`, then this command against that API",
		expected: "created; 401 and 200 as in the rows of the REST API",
		advice:   "Use the OpenAPI body, or another tool's snippet.",
	},
	{
		id:   "hand-http-unauthorized",
		what: "An authorizer error `Unauthorized` on an HTTP API",
		source: guide + "Control access to HTTP APIs with Lambda authorizers promises 401 for REST " +
			"APIs alone",
		how:      "return it from a test authorizer",
		expected: "500, which is why check denies there instead",
		advice:   "401: nothing to do; report it.",
	},
	{
		id:       "hand-timeout",
		what:     "An HTTP API's integration time-out",
		source:   guide + "Quotas for HTTP APIs: 30 s; no source for the status",
		how:      "a backend that takes 31 s",
		expected: "504 or 503",
		advice:   "Only the emulator's answer differs.",
	},
	{
		id:       "hand-absent",
		what:     "A header mapped from a context key that is absent",
		source:   unproven,
		how:      "give a key an override of 1 per hour and its route a cost of 2; call",
		expected: "429 without Retry-After; the body's `retry-after` is `never`",
		advice:   "An empty Retry-After: clients must take it for none.",
	},
	{
		id:       "hand-websocket",
		what:     "A deny and an error at a WebSocket API's `$connect`",
		source:   unproven,
		how:      "attach check to `$connect`; connect over the limit, and without a key",
		expected: "handshake 403, and 401",
		advice:   "Clients must go by the failed handshake.",
	},
	{
		id:       "hand-usage-identifier",
		what:     "`usageIdentifierKey` on WebSocket APIs",
		source:   guide + "Output from an API Gateway Lambda authorizer, for REST APIs",
		how:      "`-c usageIdentifier=true`, an API Gateway key of that value, a usage plan, a call",
		expected: "accepted, and counted",
		advice:   "Leave it off there.",
	},
	{
		id:       "hand-overwrite",
		what:     "An `overwrite` request mapping whose context key is absent",
		source:   unproven,
		how:      "map `$context.authorizer.reservation` to a header and send that header yourself",
		expected: "the client's value is gone",
		advice:   "Never trust that header in a backend: read the context.",
	},
	{
		id:     "hand-base-path",
		what:   "The path in the ARN behind a custom domain's base path",
		source: unproven,
		how:    "a rule for `/a b`; `$REST/a%20b` through a mapping with base path `v1`, and its root",
		expected: "the context's `rule` is that rule; only an HTTP API's `$default` route keeps the " +
			"base path",
		advice: "Write rules with the path that *Explain* shows, and report it.",
	},
	{
		id:     "hand-alarm-mail",
		what:   "Alarms may use the key, and the topic sends mail",
		source: "CloudWatch user guide, Notifying users on alarm changes",
		how: "`npx cdk deploy -c alarmEmail=YOU`, confirm; `aws cloudwatch set-alarm-state " +
			"--alarm-name STACK-CheckSlow --state-value ALARM --state-reason test`",
		expected: "the mail arrives; the alarm's history shows no failed action",
		advice:   "See the key's policy for cloudwatch.amazonaws.com.",
	},
	{
		id:       "hand-interfaces",
		what:     "The deny on network interfaces lets Lambda itself work",
		source:   "Lambda developer guide, Giving functions access to a VPC",
		how:      "`npx cdk deploy` in a new account, then a call",
		expected: "200, as in the first row",
		advice:   "Take the deny out of the function's role and report it.",
	},
	{
		id:     "hand-durability",
		what:   "CloudFormation takes `Durability` of a replication group",
		source: "The CDK's resource types have it; cfn-lint 1.51 does not",
		how: "`npx cdk deploy -c store=nodes -c nodeType=cache.m7g.large -c valkeyDurability=async`; " +
			"`aws elasticache describe-replication-groups`",
		expected: "`EffectiveDurability` is `async`",
		advice:   "Leave the flag out.",
	},
	{
		id:     "hand-metrics",
		what:   "Metrics arrive at every log level",
		source: "CloudWatch user guide, Embedded metric format",
		how: "`-c metrics=true -c logLevel=error`, a call, `aws cloudwatch list-metrics --namespace " +
			"Tidegate`",
		expected: "`Checks` with `Service` and `Stage`",
		advice:   "Set the application log level to TRACE.",
	},
	{
		id:       "hand-cost",
		what:     "ECPUs, billed milliseconds and log bytes of a check, which costs assume",
		source:   "Prices: aws.amazon.com; quantities: " + unproven,
		how:      "a million calls, then Cost Explorer",
		expected: "6, 3, 50; with `-c metrics=true` 250",
		advice:   "Give `infra/cost` what was billed.",
	},
	{
		id:     "hand-destroy",
		what:   "Nothing is left of a dev stage",
		source: "CloudFormation user guide, DeletionPolicy",
		how: "`npx cdk destroy`; `aws resourcegroupstaggingapi get-resources --tag-filters " +
			"Key=Stage,Values=dev`",
		expected: "only the key, pending deletion",
		advice:   "Delete what is listed, and report it.",
	},
	{
		id:     "hand-first-failure",
		what:   "A first deployment that fails keeps no names (`RetainExceptOnCreate`)",
		source: "CloudFormation user guide, DeletionPolicy",
		how: "`npx cdk deploy -c stage=prod -c nodeType=cache.x9.large -c store=nodes`, then without " +
			"the wrong type",
		expected: "the first rolls back, the second is `CREATE_COMPLETE`",
		advice:   "Delete the resources that the second names.",
	},
	{
		id:       "hand-snapshot",
		what:     "A prod stage leaves a last snapshot",
		source:   "ElastiCache user guide, Final snapshots",
		how:      "`npx cdk destroy -c stage=prod`; `aws elasticache describe-serverless-cache-snapshots`",
		expected: "`tidegate-prod-final`",
		advice:   "Make one by hand before the next destroy.",
	},
}
