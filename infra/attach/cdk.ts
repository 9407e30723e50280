// Puts Tidegate before a REST API and an HTTP API of a CDK app in TypeScript.
// checkFunctionArn is the output CheckFunctionArn of the Tidegate stack. The authorizers
// are plain CloudFormation resources, since an L2 RequestAuthorizer without identity
// sources sends "", which API Gateway refuses.
import { Annotations, Aspects, Stack } from 'aws-cdk-lib';
import * as apigateway from 'aws-cdk-lib/aws-apigateway';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Construct, IConstruct } from 'constructs';

const tooManyRequests =
  '{"type":"$context.authorizer.problemType","title":"Too Many Requests","status":429,"detail":"$context.authorizer.message","message":"$context.authorizer.message","violated-policies":["$context.authorizer.violatedPolicy"],"retry-after":"$context.authorizer.wait","reference":"$context.authorizer.reference","instance":"urn:uuid:$context.requestId"}';
const unauthorized =
  '{"type":"about:blank","title":"Unauthorized","status":401,"detail":"A valid credential is required.","message":"A valid credential is required.","instance":"urn:uuid:$context.requestId"}';
const deployAnew =
  'This app does not deploy the REST API. After this stack, deploy the API anew: aws apigateway create-deployment --rest-api-id ID --stage-name STAGE. ' +
  'Until then its stages count no calls, or answer 403 without Retry-After.';

/** Limits a REST API. Give what it returns to methods as their authorizer. */
export function limitRestApi(scope: Construct, id: string, api: apigateway.IRestApi, checkFunctionArn: string): apigateway.IAuthorizer {
  const limits = new Construct(scope, id);
  const authorizer = new apigateway.CfnAuthorizer(limits, 'Authorizer', {
    name: 'tidegate',
    restApiId: api.restApiId,
    type: 'REQUEST',
    authorizerUri: invokeUri(limits, checkFunctionArn),
    authorizerResultTtlInSeconds: 0, // results are never cached, so that every call counts
  });
  allow(limits, checkFunctionArn, api.restApiId, authorizer.ref);
  // The stage's Deployment waits for a gateway response of a RestApi: without them it
  // would answer 403 without Retry-After.
  new apigateway.GatewayResponse(limits, 'TooManyRequests', {
    restApi: api,
    type: apigateway.ResponseType.ACCESS_DENIED,
    statusCode: '429',
    responseHeaders: {
      'Access-Control-Allow-Origin': "'*'",
      'Access-Control-Expose-Headers': "'Retry-After,RateLimit,RateLimit-Policy'",
      'Cache-Control': "'no-store'",
      'Content-Type': "'application/problem+json'",
      RateLimit: 'context.authorizer.rateLimit',
      'RateLimit-Policy': 'context.authorizer.rateLimitPolicy',
      'Retry-After': 'context.authorizer.retryAfter',
    },
    templates: { 'application/json': tooManyRequests },
  });
  new apigateway.GatewayResponse(limits, 'Unauthorized', {
    restApi: api,
    type: apigateway.ResponseType.UNAUTHORIZED,
    statusCode: '401',
    responseHeaders: {
      'Access-Control-Allow-Origin': "'*'",
      'Access-Control-Expose-Headers': "'Retry-After,RateLimit,RateLimit-Policy'",
      'Cache-Control': "'no-store'",
      'Content-Type': "'application/problem+json'",
      // An MCP server adds resource_metadata: see docs/attach.md.
      'WWW-Authenticate': `'Bearer realm="tidegate"'`,
    },
    templates: { 'application/json': unauthorized },
  });
  if (!api.latestDeployment) {
    Annotations.of(limits).addWarningV2('tidegate:DeployAnew', deployAnew);
  }
  return { authorizerId: authorizer.ref, authorizationType: apigateway.AuthorizationType.CUSTOM };
}

/**
 * Limits an HTTP API. Give what it returns to routes as their authorizer. The API's
 * integrations add the RateLimit fields to answers.
 */
export function limitHttpApi(scope: Construct, id: string, api: apigatewayv2.IHttpApi, checkFunctionArn: string): apigatewayv2.IHttpRouteAuthorizer {
  const limits = new Construct(scope, id);
  const authorizer = new apigatewayv2.CfnAuthorizer(limits, 'Authorizer', {
    name: 'tidegate',
    apiId: api.apiId,
    authorizerType: 'REQUEST',
    authorizerUri: invokeUri(limits, checkFunctionArn),
    authorizerPayloadFormatVersion: '2.0',
    enableSimpleResponses: true,
    authorizerResultTtlInSeconds: 0, // results are never cached, so that every call counts
  });
  allow(limits, checkFunctionArn, api.apiId, authorizer.ref);
  // Routes that are made in the stack, or of an imported API, are not below the API.
  Aspects.of(Stack.of(api)).add({ visit: (node) => mapResponses(node, api) });
  return apigatewayv2.HttpAuthorizer.fromHttpAuthorizerAttributes(limits, 'Route', { authorizerId: authorizer.ref, authorizerType: 'CUSTOM' });
}

// Each status code that your backend answers with needs a mapping of its own.
const mappedStatusCodes = ['200', '201', '204', '400', '403', '404', '409', '429', '500', '502', '503'];

function mapResponses(node: IConstruct, api: apigatewayv2.IHttpApi): void {
  if (!(node instanceof apigatewayv2.CfnIntegration) || node.apiId !== api.apiId) {
    return;
  }
  const ResponseParameters = [
    { Destination: 'overwrite:header.RateLimit', Source: '$context.authorizer.rateLimit' },
    { Destination: 'overwrite:header.RateLimit-Policy', Source: '$context.authorizer.rateLimitPolicy' },
  ];
  node.addPropertyOverride('ResponseParameters', Object.fromEntries(mappedStatusCodes.map((code) => [code, { ResponseParameters }])));
}

/**
 * Lets this one authorizer invoke the check function. Across accounts leave it out:
 * there Tidegate's stack allows it, with -c callers=ARN.
 */
function allow(scope: Construct, checkFunctionArn: string, apiId: string, authorizerId: string): void {
  new lambda.CfnPermission(scope, 'Permission', {
    action: 'lambda:InvokeFunction',
    functionName: checkFunctionArn,
    principal: 'apigateway.amazonaws.com',
    sourceArn: Stack.of(scope).formatArn({ service: 'execute-api', resource: apiId, resourceName: `authorizers/${authorizerId}` }),
  });
}

function invokeUri(scope: Construct, checkFunctionArn: string): string {
  const { partition, region } = Stack.of(scope);
  return `arn:${partition}:apigateway:${region}:lambda:path/2015-03-31/functions/${checkFunctionArn}/invocations`;
}
