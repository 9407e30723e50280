# Puts Tidegate before an HTTP API: a REQUEST authorizer with simple responses, results
# never cached, and permission for exactly this authorizer.

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

variable "http_api_id" {
  description = "Attribute id of your aws_apigatewayv2_api"
  type        = string
}

variable "http_api_execution_arn" {
  description = "Attribute execution_arn of your aws_apigatewayv2_api"
  type        = string
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

resource "aws_apigatewayv2_authorizer" "limits" {
  name                              = "tidegate"
  api_id                            = var.http_api_id
  authorizer_type                   = "REQUEST"
  authorizer_uri                    = "arn:${data.aws_partition.current.partition}:apigateway:${data.aws_region.current.id}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
  authorizer_payload_format_version = "2.0"
  enable_simple_responses           = true
  authorizer_result_ttl_in_seconds  = 0
  identity_sources                  = []
}

resource "aws_lambda_permission" "http" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.http_api_execution_arn}/authorizers/${aws_apigatewayv2_authorizer.limits.id}"
}

output "authorizer_id" {
  description = "authorizer_id of your routes, beside authorization_type = CUSTOM"
  value       = aws_apigatewayv2_authorizer.limits.id
}

output "response_mappings" {
  description = "mappings of your integration's response_parameters, for each status code of the backend"
  value = {
    "overwrite:header.RateLimit"        = "$context.authorizer.rateLimit"
    "overwrite:header.RateLimit-Policy" = "$context.authorizer.rateLimitPolicy"
  }
}

# Only settings count here: the provider fills in others after it has made a resource.
output "redeployment" {
  description = "One of the triggers of your aws_apigatewayv2_deployment, if the stage has no auto_deploy"
  value = sha1(jsonencode([
    aws_apigatewayv2_authorizer.limits.id,
    aws_apigatewayv2_authorizer.limits.authorizer_uri,
  ]))
}
