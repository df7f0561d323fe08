<?php

declare(strict_types=1);

namespace Coax;

use Coax\Internal\Call;
use Coax\Internal\Check;
use Coax\Internal\Exchange;
use Coax\Internal\Failure;
use Coax\Internal\Options;
use Coax\Internal\Pause;
use Coax\Internal\Secret;
use Coax\Internal\Signature;
use Coax\Internal\Success;
use Coax\Internal\Transport;

/**
 * Calls a service. sdk/BEHAVIOUR.md has every rule.
 *
 * Every operation costs money, so each one is named by an idempotency key that the
 * caller makes and stores before calling. Whatever happens to the call, the same key asks
 * about the same operation, and it is never charged twice.
 */
final class Client
{
    /** How long awaitSettled takes at most, if it is not told, in seconds. */
    private const AWAIT_TIMEOUT = 600.0;

    private readonly string $origin;
    private readonly Secret $secret;
    private readonly Options $options;
    private readonly Exchange $exchange;

    /**
     * @param string $baseUrl https://HOST/api/v1; plain HTTP on loopback only
     * @param ?string $caCert the file with the service's own certificate authority, if it has one
     * @param array<string, mixed> $options as in sdk/BEHAVIOUR.md, times in seconds; on_attempt gets an
     *                                      Attempt, clock returns Unix seconds
     *
     * @throws \InvalidArgumentException if something of it is malformed, or the file cannot be read
     */
    public function __construct(
        string $baseUrl,
        private readonly string $apiKey,
        #[\SensitiveParameter] string $apiSecret,
        ?string $caCert = null,
        array $options = [],
    ) {
        [$this->origin, $loopback] = Check::baseUrl($baseUrl);
        // A key read from a file often ends with a line feed, which is invalid in a header.
        if (!preg_match('/^[!-~]+$/D', $apiKey) || !preg_match('/^[!-~]+$/D', $apiSecret)) {
            throw new \InvalidArgumentException(
                'The API key or its secret is empty, or has a space, a line feed or another character that none has.',
            );
        }
        $this->secret = new Secret($apiSecret);
        $this->options = new Options($options);
        $transport = new Transport(Check::caFile($caCert), $loopback, $this->options->connectTimeout);
        $this->exchange = new Exchange($this->origin, $apiKey, $this->secret, $transport, $this->options);
    }

    /**
     * Creates a subscriber and activates a plan, for its price. The key names this
     * activation permanently.
     *
     * A password that the service generated is only in the first answer, even if that is
     * a PendingError: store it.
     *
     * @param array<string, mixed>|object|string $body the wire's fields, or JSON that is sent as it is
     *
     * @throws CoaxError
     */
    public function activate(#[\SensitiveParameter] array|object|string $body, ?string $idempotencyKey): Operation
    {
        return $this->operate('activate', $body, $idempotencyKey);
    }

    /**
     * Renews a subscriber, for the plan's price. The key names this renewal permanently.
     *
     * @param array<string, mixed>|object|string $body the wire's fields, or JSON that is sent as it is
     *
     * @throws CoaxError
     */
    public function renew(#[\SensitiveParameter] array|object|string $body, ?string $idempotencyKey): Operation
    {
        return $this->operate('renew', $body, $idempotencyKey);
    }

    /**
     * Books a subscriber's next cycle before the present one ends, for the plan's price.
     * The key names this booking permanently.
     *
     * @param array<string, mixed>|object|string $body the wire's fields, or JSON that is sent as it is
     *
     * @throws CoaxError
     */
    public function advanceRenew(#[\SensitiveParameter] array|object|string $body, ?string $idempotencyKey): Operation
    {
        return $this->operate('advance-renew', $body, $idempotencyKey);
    }

    /** @throws CoaxError */
    public function balance(): Balance
    {
        return $this->lookUp('balance', [], Balance::class, static fn (Balance $b): bool => ($b->currency ?? '') !== '');
    }

    /** @throws CoaxError */
    public function plans(): Catalogue
    {
        return $this->lookUp('plans', [], Catalogue::class, static fn (Catalogue $c): bool => is_array($c->plans));
    }

    /**
     * Reads one of the operator's subscribers, by id or by mobile number.
     *
     * @param string|array{subscriber_id?: string, mobile?: string}|null $subscriberId
     *
     * @throws CoaxError
     */
    public function subscription(string|array|null $subscriberId = null, ?string $mobile = null): Subscription
    {
        $query = self::query(['subscriber_id', 'mobile'], $subscriberId, $mobile);
        return $this->lookUp('subscription', $query, Subscription::class, static function (Subscription $s): bool {
            return $s->customer instanceof Result && ($s->customer->subscriber_id ?? '') !== '';
        });
    }

    /**
     * Reads an operation, by the service's id or by the caller's key. A failed operation
     * is not an error here.
     *
     * @param string|array{transaction_id?: string, idempotency_key?: string}|null $transactionId
     *
     * @throws CoaxError
     */
    public function transaction(string|array|null $transactionId = null, ?string $idempotencyKey = null): Operation
    {
        $query = self::query(['transaction_id', 'idempotency_key'], $transactionId, $idempotencyKey);
        return self::orThrow($this->find($query, Pause::now() + $this->options->totalTimeout))->result;
    }

    /**
     * Polls an operation until it is settled, and returns it; one that failed is a
     * ProviderError. It is for an order that an earlier run left open.
     *
     * A NotFoundError means that nothing was reserved under the key so far. That is
     * undecided, too: a request may still arrive. Call the operation itself again, with the
     * same key.
     *
     * @param int|float|null $timeout in seconds; ten minutes if null
     *
     * @throws CoaxError
     */
    public function awaitSettled(?string $idempotencyKey, int|float|null $timeout = null): Operation
    {
        $timeout ??= self::AWAIT_TIMEOUT;
        if (!($timeout > 0)) {
            throw new \InvalidArgumentException('The time-out has to be above zero.');
        }
        Check::idempotencyKey('GET transaction', $idempotencyKey ?? '');
        return self::orThrow($this->follow($idempotencyKey, Pause::now() + $timeout, self::isSettled(...)))->result;
    }

    /** Returns the signature of a request: 64 lower-case hex digits. */
    public function sign(
        string $method,
        string $path,
        string $query,
        #[\SensitiveParameter] string $body,
        string $timestamp,
        string $nonce,
    ): string {
        return Signature::of($this->secret, $method, $path, $query, $body, $timestamp, $nonce);
    }

    /** @return array<string, mixed> */
    public function __debugInfo(): array
    {
        return ['base_url' => $this->origin . '/api/v1', 'api_key' => $this->apiKey, 'api_secret' => $this->secret];
    }

    /** @return array<string, mixed> */
    public function __serialize(): array
    {
        throw new \LogicException('A client holds a secret, and cannot be serialised.');
    }

    /** Sends one operation, with retries where that is safe, and polls it while it is in progress. */
    private function operate(string $endpoint, #[\SensitiveParameter] array|object|string $body, ?string $key): Operation
    {
        $key ??= '';
        Check::idempotencyKey("POST $endpoint", $key);
        $complete = static fn (Operation $o): bool => ($o->transaction_id ?? '') !== '' && ($o->status ?? '') !== '';
        $call = new Call('POST', $endpoint, '', $key, Check::body("POST $endpoint", $body), Operation::class, $complete);
        $deadline = Pause::now() + $this->options->totalTimeout;
        $outcome = $this->exchange->call($call, $deadline);
        if ($outcome instanceof Success) {
            return self::orThrow(self::outcome($call->name(), $outcome))->result;
        }
        $wait = $this->options->waitUntilSettled;
        if ($outcome->code === Code::REQUEST_IN_PROGRESS || $outcome->code === Code::PENDING_REVIEW && $wait) {
            $enough = $wait ? self::isSettled(...) : static fn (Operation $o): bool => $o->status !== Status::PROCESSING;
            $outcome = $this->follow($key, $deadline, $enough, $outcome);
        }
        return self::orThrow($outcome)->result;
    }

    /**
     * Polls an operation until its state is enough or the time is over.
     *
     * @param \Closure(Operation): bool $enough
     * @param ?Failure $open the answer that left the outcome open; returned if the operation is never found
     */
    private function follow(string $key, float $deadline, \Closure $enough, ?Failure $open = null): Success|Failure
    {
        $last = null;
        for ($poll = 1; ; $poll++) {
            $found = $this->find(['idempotency_key' => $key], min($deadline, Pause::now() + $this->options->totalTimeout));
            if ($found instanceof Success) {
                $last = self::keepPassword($found, $open?->operation);
                if ($enough($last->result)) {
                    return self::outcome('GET transaction', $last);
                }
            } elseif (!$found->retryable()) {
                $failure = $found;
                $failure->operation = $last?->result;
                break;
            }
            if (!Pause::wait(Pause::growing($this->options, $poll), $deadline)) {
                $failure = $last === null ? new Failure('GET transaction') : self::outcome('GET transaction', $last);
                $failure->cause = 'the outcome was not known in time';
                $failure->attempts = $poll;
                break;
            }
        }
        if ($last === null && $open !== null) {
            // The operation exists, even if the look-up fails.
            $open->cause = $failure->describe();
            return $open;
        }
        $failure->undecided = true;
        return $failure;
    }

    /** Look-ups do not repeat the password of the first answer. */
    private static function keepPassword(Success $found, ?Operation $first): Success
    {
        $password = $first?->customer instanceof Result ? $first->customer->password : null;
        $customer = $found->result->customer;
        if ($password === null || !$customer instanceof Result || isset($customer->password)) {
            return $found;
        }
        $operation = $found->result->with('customer', $customer->with('password', new Secret($password)));
        return new Success($operation, $found->code, $found->requestId);
    }

    private static function isSettled(Operation $operation): bool
    {
        return $operation->isSettled();
    }

    /**
     * Returns an operation that succeeded, and otherwise the failure that its status is. An
     * unknown status, of a later version, is undecided.
     *
     * @param Success<Operation> $found
     */
    private static function outcome(string $call, Success $found): Success|Failure
    {
        $operation = $found->result;
        if ($operation->status === Status::SUCCESS) {
            return $found;
        }
        [$status, $code] = match ($operation->status) {
            Status::FAILED => [502, Code::PROVIDER_ERROR],
            Status::NEEDS_REVIEW => [202, Code::PENDING_REVIEW],
            Status::PROCESSING => [409, Code::REQUEST_IN_PROGRESS],
            default => [200, is_string($operation->result_code) ? $operation->result_code : $found->code],
        };
        $message = is_string($operation->result_message) ? $operation->result_message : '';
        $failure = new Failure($call, $status, $code, $message);
        $failure->requestId = $found->requestId;
        $failure->operation = $operation;
        $failure->undecided = $operation->status !== Status::FAILED;
        return $failure;
    }

    /** @param array<string, string> $query */
    private function find(array $query, float $deadline): Success|Failure
    {
        $complete = static function (Operation $o) use ($query): bool {
            foreach ($query as $name => $value) {
                if ($o->{$name} !== $value) {
                    return false;
                }
            }
            return ($o->transaction_id ?? '') !== '' && ($o->status ?? '') !== '';
        };
        return $this->exchange->call(Call::lookUp('transaction', $query, Operation::class, $complete), $deadline);
    }

    /**
     * @template T of Result
     * @param array<string, string> $query
     * @param class-string<T> $class
     * @return T
     */
    private function lookUp(string $endpoint, array $query, string $class, \Closure $complete): Result
    {
        $call = Call::lookUp($endpoint, $query, $class, $complete);
        return self::orThrow($this->exchange->call($call, Pause::now() + $this->options->totalTimeout))->result;
    }

    /** @throws CoaxError */
    private static function orThrow(Success|Failure $outcome): Success
    {
        return $outcome instanceof Failure ? throw $outcome->error() : $outcome;
    }

    /**
     * Returns the query of a look-up, by the first of two names that was given.
     *
     * @param array{string, string} $names
     * @param string|array<string, ?string>|null $first
     * @return array<string, string>
     */
    private static function query(array $names, string|array|null $first, ?string $second): array
    {
        $given = is_array($first) ? $first : array_combine($names, [$first, $second]);
        $unknown = array_diff(array_keys($given), $names);
        if ($unknown !== []) {
            throw new \InvalidArgumentException('There is no argument ' . implode(', ', $unknown) . '.');
        }
        foreach ($names as $name) {
            if (($given[$name] ?? '') !== '') {
                return [$name => (string) $given[$name]];
            }
        }
        return []; // the service says what is missing
    }
}
