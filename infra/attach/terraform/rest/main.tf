# Puts Tidegate before a REST API: a REQUEST authorizer, results never cached, permission
# for exactly this authorizer, and the API's answers 429 and 401. They are the answers of
# the whole API: the refusals of its other authorizers, of IAM and of resource policies
# become 429 too.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "check_function_arn" {
  description = "Output CheckFunctionArn of Tidegate's stack"
  type        = string
}

variable "rest_api_id" {
  description = "Attribute id of your aws_api_gateway_rest_api"
  type        = string
}

variable "rest_api_execution_arn" {
  description = "Attribute execution_arn of your aws_api_gateway_rest_api"
  type        = string
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

resource "aws_api_gateway_authorizer" "limits" {
  name                             = "tidegate"
  rest_api_id                      = var.rest_api_id
  type                             = "REQUEST"
  authorizer_uri                   = "arn:${data.aws_partition.current.partition}:apigateway:${data.aws_region.current.id}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
  authorizer_result_ttl_in_seconds = 0
  # The provider sends a header where nothing is set, and "" as it is, which API Gateway
  # refuses. This source is in every call.
  identity_source = "context.accountId"
}

resource "aws_lambda_permission" "rest" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.rest_api_execution_arn}/authorizers/${aws_api_gateway_authorizer.limits.id}"
}

resource "aws_api_gateway_gateway_response" "too_many_requests" {
  rest_api_id   = var.rest_api_id
  response_type = "ACCESS_DENIED"
  status_code   = "429"

  response_parameters = {
    "gatewayresponse.header.Access-Control-Allow-Origin"   = "'*'"
    "gatewayresponse.header.Access-Control-Expose-Headers" = "'Retry-After,RateLimit,RateLimit-Policy'"
    "gatewayresponse.header.Cache-Control"                 = "'no-store'"
    "gatewayresponse.header.Content-Type"                  = "'application/problem+json'"
    "gatewayresponse.header.RateLimit"                     = "context.authorizer.rateLimit"
    "gatewayresponse.header.RateLimit-Policy"              = "context.authorizer.rateLimitPolicy"
    "gatewayresponse.header.Retry-After"                   = "context.authorizer.retryAfter"
  }

  response_templates = {
    "application/json" = "{\"type\":\"$context.authorizer.problemType\",\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"$context.authorizer.message\",\"message\":\"$context.authorizer.message\",\"violated-policies\":[\"$context.authorizer.violatedPolicy\"],\"retry-after\":\"$context.authorizer.wait\",\"reference\":\"$context.authorizer.reference\",\"instance\":\"urn:uuid:$context.requestId\"}"
  }
}

resource "aws_api_gateway_gateway_response" "unauthorized" {
  rest_api_id   = var.rest_api_id
  response_type = "UNAUTHORIZED"
  status_code   = "401"

  response_parameters = {
    "gatewayresponse.header.Access-Control-Allow-Origin"   = "'*'"
    "gatewayresponse.header.Access-Control-Expose-Headers" = "'Retry-After,RateLimit,RateLimit-Policy'"
    "gatewayresponse.header.Cache-Control"                 = "'no-store'"
    "gatewayresponse.header.Content-Type"                  = "'application/problem+json'"
    # An MCP server adds resource_metadata: see docs/attach.md.
    "gatewayresponse.header.WWW-Authenticate" = "'Bearer realm=\"tidegate\"'"
  }

  response_templates = {
    "application/json" = "{\"type\":\"about:blank\",\"title\":\"Unauthorized\",\"status\":401,\"detail\":\"A valid credential is required.\",\"message\":\"A valid credential is required.\",\"instance\":\"urn:uuid:$context.requestId\"}"
  }
}

output "authorizer_id" {
  description = "authorizer_id of your methods, beside authorization = CUSTOM"
  value       = aws_api_gateway_authorizer.limits.id
}

# Only settings count here: the provider fills in others after it has made a resource.
output "redeployment" {
  description = "One of the triggers of your aws_api_gateway_deployment, which also depends on this module"
  value = sha1(jsonencode([
    aws_api_gateway_authorizer.limits.id,
    aws_api_gateway_authorizer.limits.authorizer_uri,
    aws_api_gateway_authorizer.limits.identity_source,
    [for response in [
      aws_api_gateway_gateway_response.too_many_requests,
      aws_api_gateway_gateway_response.unauthorized,
    ] : [response.status_code, response.response_parameters, response.response_templates]],
  ]))
}
