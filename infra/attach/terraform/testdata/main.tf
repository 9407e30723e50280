# An app with an API of each kind, which the modules attach. The pages show its lines.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "endpoint" {
  type = string
}

variable "code" {
  type = string
}

provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "test"
  secret_key                  = "test"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true

  endpoints {
    apigateway   = var.endpoint
    apigatewayv2 = var.endpoint
    iam          = var.endpoint
    lambda       = var.endpoint
    sts          = var.endpoint
  }
}

resource "aws_iam_role" "check" {
  name = "check"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Action = "sts:AssumeRole", Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" } }]
  })
}

# What Tidegate's stack has.
resource "aws_lambda_function" "check" {
  function_name = "tidegate-dev-check"
  role          = aws_iam_role.check.arn
  runtime       = "provided.al2023"
  handler       = "bootstrap"
  filename      = var.code
}

resource "aws_api_gateway_rest_api" "orders" {
  name = "orders"
}

module "tidegate" {
  source = "./rest"

  check_function_arn     = aws_lambda_function.check.arn
  rest_api_id            = aws_api_gateway_rest_api.orders.id
  rest_api_execution_arn = aws_api_gateway_rest_api.orders.execution_arn
}

resource "aws_api_gateway_method" "get" {
  rest_api_id   = aws_api_gateway_rest_api.orders.id
  resource_id   = aws_api_gateway_rest_api.orders.root_resource_id
  http_method   = "GET"
  authorization = "CUSTOM"
  authorizer_id = module.tidegate.authorizer_id
}

resource "aws_api_gateway_integration" "get" {
  rest_api_id = aws_api_gateway_rest_api.orders.id
  resource_id = aws_api_gateway_rest_api.orders.root_resource_id
  http_method = aws_api_gateway_method.get.http_method
  type        = "MOCK"
}

resource "aws_api_gateway_deployment" "orders" {
  rest_api_id = aws_api_gateway_rest_api.orders.id
  depends_on  = [module.tidegate, aws_api_gateway_integration.get]
  triggers    = { tidegate = module.tidegate.redeployment }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_api_gateway_stage" "prod" {
  rest_api_id   = aws_api_gateway_rest_api.orders.id
  deployment_id = aws_api_gateway_deployment.orders.id
  stage_name    = "prod"
}

resource "aws_apigatewayv2_api" "web" {
  name          = "web"
  protocol_type = "HTTP"
}

module "tidegate_http" {
  source = "./http"

  check_function_arn     = aws_lambda_function.check.arn
  http_api_id            = aws_apigatewayv2_api.web.id
  http_api_execution_arn = aws_apigatewayv2_api.web.execution_arn
}

resource "aws_apigatewayv2_integration" "backend" {
  api_id             = aws_apigatewayv2_api.web.id
  integration_type   = "HTTP_PROXY"
  integration_method = "ANY"
  integration_uri    = "https://backend.example.com/{proxy}"

  dynamic "response_parameters" {
    for_each = toset(["200", "404", "500"])
    content {
      status_code = response_parameters.value
      mappings    = module.tidegate_http.response_mappings
    }
  }
}

resource "aws_apigatewayv2_route" "any" {
  api_id             = aws_apigatewayv2_api.web.id
  route_key          = "GET /{proxy+}"
  target             = "integrations/${aws_apigatewayv2_integration.backend.id}"
  authorization_type = "CUSTOM"
  authorizer_id      = module.tidegate_http.authorizer_id
}

resource "aws_apigatewayv2_api" "chat" {
  name                       = "chat"
  protocol_type              = "WEBSOCKET"
  route_selection_expression = "$request.body.action"
}

module "tidegate_websocket" {
  source = "./websocket"

  check_function_arn          = aws_lambda_function.check.arn
  websocket_api_id            = aws_apigatewayv2_api.chat.id
  websocket_api_execution_arn = aws_apigatewayv2_api.chat.execution_arn
}

resource "aws_apigatewayv2_route" "connect" {
  api_id             = aws_apigatewayv2_api.chat.id
  route_key          = "$connect"
  authorization_type = "CUSTOM"
  authorizer_id      = module.tidegate_websocket.authorizer_id
}
