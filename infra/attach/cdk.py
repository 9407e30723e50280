# Puts Tidegate before a REST API and an HTTP API of a CDK app in Python: the same as
# cdk.ts, but not run by any test.
import jsii
from aws_cdk import Annotations, Aspects, IAspect, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

TOO_MANY_REQUESTS = '{"type":"$context.authorizer.problemType","title":"Too Many Requests","status":429,"detail":"$context.authorizer.message","message":"$context.authorizer.message","violated-policies":["$context.authorizer.violatedPolicy"],"retry-after":"$context.authorizer.wait","reference":"$context.authorizer.reference","instance":"urn:uuid:$context.requestId"}'
UNAUTHORIZED = '{"type":"about:blank","title":"Unauthorized","status":401,"detail":"A valid credential is required.","message":"A valid credential is required.","instance":"urn:uuid:$context.requestId"}'

DEPLOY_ANEW = (
    "This app does not deploy the REST API. After this stack, deploy the API anew: aws apigateway create-deployment --rest-api-id ID --stage-name STAGE. "
    "Until then its stages count no calls, or answer 403 without Retry-After."
)


def limit_rest_api(scope: Construct, id: str, api: apigateway.IRestApi, check_function_arn: str) -> apigateway.CfnAuthorizer:
    """Limits a REST API. Give what it returns to authorize(), with each method."""
    limits = Construct(scope, id)
    authorizer = apigateway.CfnAuthorizer(
        limits,
        "Authorizer",
        name="tidegate",
        rest_api_id=api.rest_api_id,
        type="REQUEST",
        authorizer_uri=_invoke_uri(limits, check_function_arn),
        authorizer_result_ttl_in_seconds=0,  # results are never cached, so that every call counts
    )
    _allow(limits, check_function_arn, api.rest_api_id, authorizer.ref)
    # The stage's Deployment waits for a gateway response of a RestApi: without them it
    # would answer 403 without Retry-After.
    apigateway.GatewayResponse(
        limits,
        "TooManyRequests",
        rest_api=api,
        type=apigateway.ResponseType.ACCESS_DENIED,
        status_code="429",
        response_headers={
            "Access-Control-Allow-Origin": "'*'",
            "Access-Control-Expose-Headers": "'Retry-After,RateLimit,RateLimit-Policy'",
            "Cache-Control": "'no-store'",
            "Content-Type": "'application/problem+json'",
            "RateLimit": "context.authorizer.rateLimit",
            "RateLimit-Policy": "context.authorizer.rateLimitPolicy",
            "Retry-After": "context.authorizer.retryAfter",
        },
        templates={"application/json": TOO_MANY_REQUESTS},
    )
    apigateway.GatewayResponse(
        limits,
        "Unauthorized",
        rest_api=api,
        type=apigateway.ResponseType.UNAUTHORIZED,
        status_code="401",
        response_headers={
            "Access-Control-Allow-Origin": "'*'",
            "Access-Control-Expose-Headers": "'Retry-After,RateLimit,RateLimit-Policy'",
            "Cache-Control": "'no-store'",
            "Content-Type": "'application/problem+json'",
            # An MCP server adds resource_metadata: see docs/attach.md.
            "WWW-Authenticate": "'Bearer realm=\"tidegate\"'",
        },
        templates={"application/json": UNAUTHORIZED},
    )
    if api.latest_deployment is None:
        Annotations.of(limits).add_warning_v2("tidegate:DeployAnew", DEPLOY_ANEW)
    return authorizer


def authorize(method: apigateway.Method, authorizer: apigateway.CfnAuthorizer) -> None:
    """Puts a method of the REST API behind the authorizer."""
    resource = method.node.default_child
    resource.add_property_override("AuthorizationType", "CUSTOM")
    resource.add_property_override("AuthorizerId", authorizer.ref)
    # The deployment's hash has the method as it was before the overrides.
    if method.api.latest_deployment is not None:
        method.api.latest_deployment.add_to_logical_id(["tidegate", method.node.path])


def limit_http_api(scope: Construct, id: str, api: apigatewayv2.IHttpApi, check_function_arn: str) -> apigatewayv2.IHttpRouteAuthorizer:
    """Limits an HTTP API. Give what it returns to routes as their authorizer. The API's integrations add the RateLimit fields to answers."""
    limits = Construct(scope, id)
    authorizer = apigatewayv2.CfnAuthorizer(
        limits,
        "Authorizer",
        name="tidegate",
        api_id=api.api_id,
        authorizer_type="REQUEST",
        authorizer_uri=_invoke_uri(limits, check_function_arn),
        authorizer_payload_format_version="2.0",
        enable_simple_responses=True,
        authorizer_result_ttl_in_seconds=0,  # results are never cached, so that every call counts
    )
    _allow(limits, check_function_arn, api.api_id, authorizer.ref)
    # Routes that are made in the stack, or of an imported API, are not below the API.
    Aspects.of(Stack.of(api)).add(_MapResponses(api))
    return apigatewayv2.HttpAuthorizer.from_http_authorizer_attributes(
        limits, "Route", authorizer_id=authorizer.ref, authorizer_type="CUSTOM"
    )


# Each status code that your backend answers with needs a mapping of its own.
MAPPED_STATUS_CODES = ["200", "201", "204", "400", "403", "404", "409", "429", "500", "502", "503"]


@jsii.implements(IAspect)
class _MapResponses:
    def __init__(self, api):
        self.api = api

    def visit(self, node):
        if not isinstance(node, apigatewayv2.CfnIntegration) or node.api_id != self.api.api_id:
            return
        mapping = [
            {"Destination": "overwrite:header.RateLimit", "Source": "$context.authorizer.rateLimit"},
            {"Destination": "overwrite:header.RateLimit-Policy", "Source": "$context.authorizer.rateLimitPolicy"},
        ]
        for code in MAPPED_STATUS_CODES:
            node.add_property_override(f"ResponseParameters.{code}.ResponseParameters", mapping)


def _allow(scope: Construct, check_function_arn: str, api_id: str, authorizer_id: str) -> None:
    """Lets this one authorizer invoke the check function. Across accounts leave it out: there Tidegate's stack allows it, with -c callers=ARN."""
    lambda_.CfnPermission(
        scope,
        "Permission",
        action="lambda:InvokeFunction",
        function_name=check_function_arn,
        principal="apigateway.amazonaws.com",
        source_arn=Stack.of(scope).format_arn(service="execute-api", resource=api_id, resource_name=f"authorizers/{authorizer_id}"),
    )


def _invoke_uri(scope: Construct, check_function_arn: str) -> str:
    stack = Stack.of(scope)
    return f"arn:{stack.partition}:apigateway:{stack.region}:lambda:path/2015-03-31/functions/{check_function_arn}/invocations"
