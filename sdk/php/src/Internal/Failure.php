<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax;
use Coax\Code;
use Coax\CoaxError;
use Coax\Operation;
use Coax\Result;

/**
 * A call, or an attempt of one, that did not succeed: what a CoaxError is made from.
 *
 * @internal
 */
final class Failure
{
    private const CLASSES = [
        Coax\InvalidRequestError::class => [
            Code::BAD_REQUEST, Code::NOT_FOUND, Code::METHOD_NOT_ALLOWED, Code::PAYLOAD_TOO_LARGE,
            Code::UNSUPPORTED_MEDIA_TYPE, Code::INVALID_JSON, Code::MISSING_IDEMPOTENCY_KEY,
            Code::INVALID_IDEMPOTENCY_KEY, Code::VALIDATION_ERROR, Code::INVALID_PLAN, Code::IDEMPOTENCY_KEY_REUSED,
        ],
        Coax\AuthenticationError::class => [
            Code::HTTPS_REQUIRED, Code::MISSING_AUTH_HEADERS, Code::INVALID_API_KEY, Code::CREDENTIAL_REVOKED,
            Code::CREDENTIAL_EXPIRED, Code::TIMESTAMP_EXPIRED, Code::INVALID_NONCE, Code::INVALID_SIGNATURE,
            Code::REPLAY_DETECTED,
        ],
        Coax\AccessDeniedError::class => [
            Code::LCO_NOT_FOUND, Code::LCO_INACTIVE, Code::API_ACCESS_BLOCKED, Code::API_DISABLED,
            Code::IP_NOT_WHITELISTED, Code::PERMISSION_DENIED,
        ],
        Coax\RateLimitError::class => [Code::RATE_LIMITED, Code::TOO_MANY_FAILED_ATTEMPTS],
        Coax\InsufficientBalanceError::class => [Code::INSUFFICIENT_BALANCE],
        Coax\NotFoundError::class => [Code::SUBSCRIBER_NOT_FOUND, Code::TRANSACTION_NOT_FOUND],
        Coax\ConflictError::class => [
            Code::SUBSCRIBER_EXISTS, Code::PLAN_ALREADY_ACTIVE, Code::DUPLICATE_REQUEST, Code::OPERATION_IN_PROGRESS,
        ],
        Coax\UnavailableError::class => [Code::INTERNAL_ERROR, Code::SERVICE_UNAVAILABLE, Code::PLANS_UNAVAILABLE],
        Coax\ProviderError::class => [Code::PROVIDER_ERROR],
        Coax\PendingError::class => [Code::PENDING_REVIEW, Code::REQUEST_IN_PROGRESS],
    ];

    public string $requestId = '';
    public int $retryAfter = 0;
    public int $attempts = 0;
    public bool $undecided = false;
    /** @var array<string, string> */
    public array $fields = [];
    public ?Operation $operation = null;
    public ?Result $data = null;
    /** The request was certainly not sent. */
    public bool $notSent = false;
    /** The service's certificate did not verify. */
    public bool $untrusted = false;

    public function __construct(
        public string $call,
        public int $status = 0,
        public string $code = '',
        public string $message = '',
        /** Why no valid answer came. */
        public string $cause = '',
    ) {
    }

    public function error(): CoaxError
    {
        return new ($this->errorClass())($this);
    }

    /** @return class-string<CoaxError> */
    private function errorClass(): string
    {
        foreach (self::CLASSES as $class => $codes) {
            if (in_array($this->code, $codes, true)) {
                return $class;
            }
        }
        return match (true) {
            // An operation whose status this version does not know, perhaps without a code.
            $this->operation !== null && $this->undecided && $this->status < 300 => Coax\PendingError::class,
            $this->code === '' => Coax\NoAnswerError::class,
            $this->status === 401 => Coax\AuthenticationError::class,
            $this->status === 402 => Coax\InsufficientBalanceError::class,
            $this->status === 403 => Coax\AccessDeniedError::class,
            $this->status === 404 => Coax\NotFoundError::class,
            $this->status === 409 => Coax\ConflictError::class,
            $this->status === 429 => Coax\RateLimitError::class,
            $this->status >= 500 => Coax\UnavailableError::class,
            $this->status < 300 => Coax\PendingError::class,
            default => Coax\InvalidRequestError::class,
        };
    }

    /** Whether the contract allows a retry with the same key. */
    public function retryable(): bool
    {
        return match (true) {
            $this->status === 0 => !$this->untrusted, // an invalid certificate stays invalid
            // A proxy answered: it is unknown what the service did.
            $this->code === '' => $this->status === 429 || $this->status >= 500 || $this->status < 300,
            // Each attempt has a new nonce, so the network delivered a request twice, and
            // this is the answer to the copy.
            $this->code === Code::REPLAY_DETECTED => true,
            $this->code === Code::OPERATION_IN_PROGRESS => true,
            default => in_array($this->status, [429, 500, 503], true),
        };
    }

    /** Whether this attempt may have started the operation, or may still start it, with an unknown result. */
    public function leavesUndecided(): bool
    {
        return match (true) {
            $this->status === 0 => !$this->notSent,
            $this->code === '' => true,
            in_array($this->code, [Code::PENDING_REVIEW, Code::REQUEST_IN_PROGRESS, Code::REPLAY_DETECTED], true) => true,
            in_array($this->code, [Code::PLANS_UNAVAILABLE, Code::PROVIDER_ERROR], true) => false,
            default => $this->status >= 500 || $this->status < 300,
        };
    }

    /** Whether the answer decides the key, even if earlier attempts left it undecided. */
    public function decidesKey(): bool
    {
        return $this->code === Code::PROVIDER_ERROR || $this->code === Code::IDEMPOTENCY_KEY_REUSED;
    }

    public function serverTime(): ?int
    {
        $time = $this->data?->server_time;
        return is_int($time) ? $time : null;
    }

    /** Describes the call, the answer, and whether the operation is undecided. */
    public function describe(): string
    {
        $text = $this->call . match (true) {
            $this->code !== '' => ": $this->code: " . rtrim($this->message, '. '),
            $this->status !== 0 => ": status $this->status and an answer that is not the service's",
            default => ': no answer',
        };
        foreach ($this->fields as $name => $message) {
            $text .= "; $name: " . rtrim($message, '. ');
        }
        $text .= $this->cause === '' ? '' : ": $this->cause";
        $text .= $this->attempts > 1 ? " ($this->attempts attempts)" : '';
        $text .= $this->requestId === '' ? '' : " [$this->requestId]";
        return $text . ($this->undecided ? '; it may have been carried out: call again with the same idempotency key' : '');
    }
}
