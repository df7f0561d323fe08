<?php

declare(strict_types=1);

namespace Coax\Internal;

use Coax\Attempt;
use Coax\Code;
use Coax\Operation;
use Coax\Result;
use Coax\Status;

/**
 * Signs and sends calls, with retries where the contract allows them.
 *
 * @internal
 */
final class Exchange
{
    /** Where signed paths begin, whatever a proxy puts before it. */
    private const API_PATH = '/api/v1';

    private const USER_AGENT = 'coax-php/0.2.0';

    private const OTHER_OPERATION = 'the answer is about another operation';

    /** The minimum pause while another operation of the same customer is in progress, in seconds. */
    private const BUSY_PAUSE = 2.0;

    /** How far the service's clock is ahead of ours, by its last report, in seconds. */
    private float $ahead = 0.0;

    /** @param string $origin scheme, host, and a proxy's path before /api/v1 */
    public function __construct(
        private readonly string $origin,
        private readonly string $apiKey,
        private readonly Secret $secret,
        private readonly Transport $transport,
        private readonly Options $options,
    ) {
    }

    /**
     * Sends a call until it succeeds or cannot be retried. Each attempt has a new
     * signature and exactly the same body.
     *
     * @param float $deadline when the call has to end, by Pause::now
     */
    public function call(Call $call, float $deadline): Success|Failure
    {
        $corrected = false;
        $undecided = false;
        for ($number = 1; ; $number++) {
            $began = Pause::now();
            $outcome = $this->attempt($call, min($this->options->timeout, $deadline - $began));
            $duration = Pause::now() - $began;
            if ($outcome instanceof Success) {
                $this->report(new Attempt($call->name(), $number, 200, $outcome->code, $outcome->requestId, $duration, null, ''));
                return $outcome;
            }
            $undecided = $undecided || $call->key !== '' && $outcome->leavesUndecided();
            $outcome->attempts = $number;
            $outcome->undecided = $undecided && !$outcome->decidesKey();

            $pause = null;
            if ($outcome->code === Code::TIMESTAMP_EXPIRED && !$corrected && $outcome->serverTime() !== null) {
                // The service counts a wrong clock as a failed authentication, so the
                // clock is corrected only once.
                $this->ahead = $outcome->serverTime() - $this->clock();
                $corrected = true;
                $pause = 0.0;
            } elseif ($outcome->retryable() && $outcome->retryAfter <= $this->options->maxRetryAfter) {
                $pause = $this->pauseAfter($outcome, $number);
            }
            if ($number >= $this->options->attempts || $pause !== null && !Pause::fits($pause, $deadline)) {
                $pause = null;
            }
            $this->report(new Attempt(
                $call->name(),
                $number,
                $outcome->status,
                $outcome->code,
                $outcome->requestId,
                $duration,
                $pause,
                $outcome->cause,
            ));
            // The hook may have taken a while.
            if ($pause === null || !Pause::wait($pause, $deadline)) {
                return $outcome;
            }
        }
    }

    private function report(Attempt $attempt): void
    {
        if ($this->options->onAttempt === null) {
            return;
        }
        try {
            ($this->options->onAttempt)($attempt);
        } catch (\Throwable $error) {
            error_log('coax: the on_attempt hook failed: ' . $error->getMessage());
        }
    }

    /** Signs and sends a call once. */
    private function attempt(Call $call, float $timeout): Success|Failure
    {
        $path = self::API_PATH . '/' . $call->endpoint;
        $body = $call->body->reveal();
        $timestamp = (string) (int) floor($this->clock() + $this->ahead);
        $nonce = bin2hex(random_bytes(16));
        $headers = [
            'User-Agent' => self::USER_AGENT,
            'Accept' => 'application/json',
            'X-API-Key' => $this->apiKey,
            'X-Timestamp' => $timestamp,
            'X-Nonce' => $nonce,
            'X-Signature' => Signature::of($this->secret, $call->method, $path, $call->query, $body, $timestamp, $nonce),
        ];
        if ($call->method === 'POST') {
            $headers['Content-Type'] = 'application/json';
            $headers['Idempotency-Key'] = $call->key;
            $headers['Expect'] = ''; // curl would wait for an interim answer before a large body
        }
        $url = $this->origin . $path . ($call->query === '' ? '' : "?$call->query");
        $reply = $this->transport->send($call->method, $url, $headers, $body, $timeout);
        if ($reply->status === 0) {
            $failure = new Failure($call->name(), cause: $reply->error);
            $failure->notSent = $reply->notSent;
            $failure->untrusted = $reply->untrusted;
            return $failure;
        }
        return self::read($call, $reply);
    }

    private static function read(Call $call, Reply $reply): Success|Failure
    {
        $failure = new Failure($call->name(), $reply->status);
        $failure->retryAfter = self::retryAfter($reply);
        $envelope = Json::decode($reply->body);
        if (!$envelope instanceof \stdClass || !is_string($envelope->code ?? null) || $envelope->code === '') {
            return $failure;
        }
        $failure->requestId = is_string($envelope->request_id ?? null) ? $envelope->request_id : '';
        if ($reply->status !== 200 || ($envelope->success ?? null) !== true) {
            return self::refusal($call, $reply, $envelope, $failure);
        }
        $data = $envelope->data ?? null;
        if (!$data instanceof \stdClass) {
            $failure->cause = 'the answer has no data';
            return $failure;
        }
        $result = $call->class === Operation::class ? self::operation($data, $reply) : $call->class::of($data);
        if ($result instanceof Operation && !self::isFor($result, $call->key)) {
            $failure->cause = self::OTHER_OPERATION;
            return $failure;
        }
        if (!($call->complete)($result)) {
            $failure->cause = 'the answer is not what was asked for';
            return $failure;
        }
        return new Success($result, $envelope->code, $failure->requestId);
    }

    /** Completes the failure of an answer of the service that is not a success. */
    private static function refusal(Call $call, Reply $reply, \stdClass $envelope, Failure $failure): Failure
    {
        $data = ($envelope->data ?? null) instanceof \stdClass ? $envelope->data : new \stdClass();
        if (is_string($data->transaction_id ?? null) && $envelope->code !== Code::OPERATION_IN_PROGRESS) {
            $failure->operation = self::operation($data, $reply);
            if (!self::isFor($failure->operation, $call->key)) {
                $failure->operation = null;
                $failure->cause = self::OTHER_OPERATION;
                return $failure;
            }
        }
        $failure->code = $envelope->code;
        $failure->message = is_string($envelope->message ?? null) ? $envelope->message : '';
        $failure->data = Result::of($data);
        if (($data->fields ?? null) instanceof \stdClass) {
            $failure->fields = array_filter(get_object_vars($data->fields), is_string(...));
        }
        // These two come with an operation, if only with its key and status.
        $status = [Code::PENDING_REVIEW => Status::NEEDS_REVIEW, Code::PROVIDER_ERROR => Status::FAILED][$failure->code] ?? null;
        if ($failure->operation === null && $status !== null && $call->key !== '') {
            $failure->operation = Operation::of((object) ['idempotency_key' => $call->key, 'status' => $status]);
        }
        return $failure;
    }

    private static function operation(\stdClass $data, Reply $reply): Operation
    {
        return Operation::of($data, ['replayed' => $reply->header('idempotent-replayed') === 'true']);
    }

    /** Whether an operation has this key; an empty key matches any. */
    private static function isFor(Operation $operation, string $key): bool
    {
        return $key === '' || in_array($operation->idempotency_key, [null, '', $key], true);
    }

    /** Reads the seconds that the service sends. A date, which proxies may send, is ignored. */
    private static function retryAfter(Reply $reply): int
    {
        $text = $reply->header('retry-after');
        return preg_match('/^[0-9]{1,9}$/D', $text) ? (int) $text : 0;
    }

    private function clock(): float
    {
        return $this->options->clock === null ? microtime(true) : (float) ($this->options->clock)();
    }

    /** Returns the pause before the next attempt. */
    private function pauseAfter(Failure $failure, int $number): float
    {
        $pause = Pause::growing($this->options, $number);
        return match (true) {
            // Other clients of the operator were given the same time.
            $failure->status === 429 && $failure->retryAfter > 0 => $failure->retryAfter * (1 + Pause::random() / 10),
            $failure->code === Code::OPERATION_IN_PROGRESS => min(max($pause, self::BUSY_PAUSE), $this->options->maxPause),
            default => $pause,
        };
    }
}
