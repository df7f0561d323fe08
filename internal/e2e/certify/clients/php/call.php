<?php

declare(strict_types=1);

// What to do after an answer.
enum Step
{
    case Again;     // send the same request once more
    case Follow;    // poll until the outcome is known
    case Resend;    // nothing is stored under the key: stop polling, send the operation once more
    case Adjust;    // correct the clock and send at once
    case Succeeded; // carried out and charged
    case Failed;    // the key is decided: not carried out
    case Refused;   // this attempt did not carry it out, and another would not either
}

final class Answer
{
    public int $status = 0;         // 0: there was no answer at all
    public int $retryAfter = 0;
    public ?object $body = null;    // null unless it is the service's; its numbers are text
    public string $problem = '';
    public bool $unsent = false;    // no connection was made
    public bool $untrusted = false; // no connection can be made: the certificate does not verify

    public function code(): string
    {
        return $this->body->code ?? '';
    }

    public function data(string $field): string
    {
        $value = $this->body->data->$field ?? '';
        return is_string($value) ? $value : '';
    }
}

// Carries out one order. A fault overrides some of the protected methods.
class Call
{
    private static array $clocks = []; // by API key: how many seconds the service's clock is ahead
    private float $deadline;
    private int $posts = 0;
    private int $polls = 0;
    private bool $undecided = false;   // a post may have been carried out
    private bool $adjusted = false;    // the clock was corrected in this call
    private string $transaction = '';
    protected bool $following = false; // the service has the operation: poll

    public function __construct(protected object $order, private string $body, protected string $stateFile)
    {
        $this->deadline = self::now() + 180;
    }

    public function carryOut(): array
    {
        if (!preg_match('/^[A-Za-z0-9_.:-]{8,100}$/D', $this->order->idempotency_key)) {
            return $this->result('failed', 'INVALID_IDEMPOTENCY_KEY');
        }
        while (true) {
            $answer = $this->attempt();
            $step = $this->next($answer);
            if ($step === Step::Succeeded) {
                return $this->result('success', $answer->code(), $this->price($answer));
            }
            $code = $answer->data('result_code') ?: $answer->code();
            if ($step === Step::Failed) {
                return $this->result('failed', $code);
            }
            $pause = $this->pause($step, $answer);
            if ($step === Step::Refused || $answer->retryAfter > 120 || self::now() + $pause > $this->deadline) {
                // A refusal is about one attempt: an earlier one without an answer may have been carried out.
                return $this->result($this->undecided ? 'pending' : 'failed', $code);
            }
            if ($step === Step::Adjust) {
                $this->adjusted = true;
                self::$clocks[$this->order->api_key] = (int) $answer->data('server_time') - time();
            }
            usleep((int) ($pause * 1e6));
            $this->following = $step === Step::Follow || $this->following && $step !== Step::Resend;
        }
    }

    protected function result(string $outcome, string $code, string $charged = ''): array
    {
        return ['id' => $this->order->id, 'outcome' => $outcome, 'transaction_id' => $this->transaction,
            'code' => $code, 'charged' => $charged];
    }

    // The table of retries. A code that it does not have counts by its status.
    protected function next(Answer $answer): Step
    {
        $status = $answer->status;
        $temporary = $status === 429 || $status >= 500;
        if ($answer->untrusted) {
            return Step::Refused;
        }
        if (!$answer->body) { // none at all, a proxy's page, or a redirect
            return $temporary || $status < 300 ? Step::Again : Step::Refused;
        }
        $settled = $status === 200 && ($answer->body->success ?? false) === true && $this->isOurs($answer);
        $outcome = $settled ? $answer->data('status') : '';
        return match (true) {
            $outcome === 'success' && $this->price($answer) !== '' => Step::Succeeded,
            $outcome === 'failed' => Step::Failed,
            default => match ($answer->code()) {
                'PROVIDER_ERROR', 'IDEMPOTENCY_KEY_REUSED' => Step::Failed,
                'TIMESTAMP_EXPIRED' => $this->adjusted || !ctype_digit($answer->data('server_time')) ? Step::Refused : Step::Adjust,
                'REPLAY_DETECTED', 'OPERATION_IN_PROGRESS' => Step::Again,
                'REQUEST_IN_PROGRESS' => Step::Follow,
                'TRANSACTION_NOT_FOUND' => $this->following ? Step::Resend : Step::Refused,
                default => $temporary ? Step::Again : ($status < 300 ? Step::Follow : Step::Refused),
            },
        };
    }

    // Whether an operation with this answer may have been carried out, or may be later.
    private function mayBeDone(Answer $answer): bool
    {
        if (!$answer->body) {
            return !$answer->unsent && !$answer->untrusted;
        }
        return match ($answer->code()) {
            'PROVIDER_ERROR', 'PLANS_UNAVAILABLE' => false,
            'REPLAY_DETECTED', 'REQUEST_IN_PROGRESS' => true,
            default => $answer->status < 300 || $answer->status >= 500,
        };
    }

    private function pause(Step $step, Answer $answer): float
    {
        if ($step === Step::Adjust) {
            return 0;
        }
        if ($answer->status === 429 && $answer->retryAfter > 0) {
            return $answer->retryAfter * (1 + self::random() / 10);
        }
        $whole = $this->following || $step === Step::Follow ? min(2 ** $this->polls, 5) : min(0.5 * 2 ** ($this->posts - 1), 30);
        return max($whole * (1 + self::random()) / 2, $answer->code() === 'OPERATION_IN_PROGRESS' ? 2 : 0);
    }

    // Sends the operation, or polls it, once.
    private function attempt(): Answer
    {
        if ($this->following) {
            $this->polls++;
            $answer = $this->exchange('GET', '/transaction', 'idempotency_key=' . rawurlencode($this->order->idempotency_key), '', '');
        } else {
            $this->posts++;
            $answer = $this->exchange('POST', '/' . $this->order->operation, '', $this->bodyToSign(), $this->bodyToSend());
            $this->undecided = $this->undecided || $this->mayBeDone($answer);
        }
        if ($this->isOurs($answer)) {
            $this->transaction = $answer->data('transaction_id') ?: $this->transaction;
        }
        $this->log("post $this->posts, poll $this->polls: $answer->status {$answer->code()} $answer->problem");
        return $answer;
    }

    protected function bodyToSign(): string
    {
        return $this->body;
    }

    protected function bodyToSend(): string
    {
        return $this->body;
    }

    private function exchange(string $method, string $path, string $query, string $signed, string $sent): Answer
    {
        $until = min(self::now() + 60, $this->deadline);
        $http = ['method' => $method, 'header' => $this->headers($method, $path, $query, $signed), 'timeout' => $until - self::now(),
            'protocol_version' => 1.1, 'ignore_errors' => true, 'follow_location' => 0];
        if ($method === 'POST') {
            array_push($http['header'], 'Content-Type: application/json', "Idempotency-Key: {$this->order->idempotency_key}");
            $http['content'] = $sent;
        }
        $ssl = ['verify_peer' => true, 'verify_peer_name' => true];
        if (($this->order->ca_cert ?? '') !== '') {
            $ssl['cafile'] = $this->order->ca_cert;
        }
        $answer = new Answer();
        set_error_handler(function (int $level, string $message) use ($answer): bool {
            $answer->problem .= strtr($message, "\n", ' ') . '. ';
            return true;
        });
        $url = rtrim($this->order->base_url, '/') . $path . ($query === '' ? '' : "?$query");
        $stream = fopen($url, 'rb', false, stream_context_create(['http' => $http, 'ssl' => $ssl]));
        if ($stream) {
            $this->read($stream, $until, $answer);
            fclose($stream);
        }
        restore_error_handler();
        $answer->unsent = !$stream && preg_match('/Connection refused|getaddrinfo|unreachable|No route to host/', $answer->problem);
        $answer->untrusted = !$stream && preg_match('/certificate verify failed|did not match|peer certificate|cafile/i', $answer->problem);
        return $answer;
    }

    // X-Timestamp, X-Nonce and X-Signature are new in each attempt.
    private function headers(string $method, string $path, string $query, string $body): array
    {
        $timestamp = time() + (self::$clocks[$this->order->api_key] ?? 0);
        $nonce = bin2hex(random_bytes(16));
        $lines = [$method, "/api/v1$path", $query, $timestamp, $nonce, hash('sha256', $body)];
        $signature = hash_hmac('sha256', implode("\n", $lines), $this->order->api_secret);
        return ["X-API-Key: {$this->order->api_key}", "X-Timestamp: $timestamp", "X-Nonce: $nonce", "X-Signature: $signature",
            'Connection: close'];
    }

    /** @param resource $stream */
    private function read($stream, float $until, Answer $answer): void
    {
        $length = 8 << 20;
        $exact = false;
        foreach (stream_get_meta_data($stream)['wrapper_data'] as $line) {
            if (preg_match('~^HTTP/\S+ (\d{3})~', $line, $found)) {
                $answer->status = (int) $found[1];
            } elseif (preg_match('/^Retry-After:\s*(\d+)\s*$/i', $line, $found)) {
                $answer->retryAfter = (int) $found[1];
            } elseif (preg_match('/^Content-Length:\s*(\d+)/i', $line, $found)) {
                [$length, $exact] = [min($length, (int) $found[1]), true];
            }
        }
        $text = '';
        while (strlen($text) < $length && !feof($stream) && ($left = $until - self::now()) > 0) {
            stream_set_timeout($stream, (int) $left, (int) (fmod($left, 1) * 1e6));
            $text .= fread($stream, min(65536, $length - strlen($text)));
        }
        if ($exact && strlen($text) < $length) {
            $answer->problem .= 'the body was cut';
            return;
        }
        // Numbers become text before PHP makes floats of them: amounts are exact.
        $quoted = preg_replace('/"(?:[^"\\\\]++|\\\\.)*+"(*SKIP)(*F)|-?\d[\d.eE+-]*/s', '"$0"', $text);
        $body = json_decode($quoted ?? '');
        $key = $body->data->idempotency_key ?? $this->order->idempotency_key;
        if (is_string($body->code ?? null) && $key === $this->order->idempotency_key && intdiv($answer->status, 100) !== 3) {
            $answer->body = $body;
        }
    }

    private function isOurs(Answer $answer): bool
    {
        return $answer->data('idempotency_key') === $this->order->idempotency_key;
    }

    // What was debited, with two decimals, or nothing if that cannot be read.
    protected function price(Answer $answer): string
    {
        $digits = $answer->body->data->wallet->charged ?? '';
        if (!is_string($digits) || !preg_match('/^(\d+)(?:\.(\d\d?)0*)?$/D', $digits, $found)) {
            return '';
        }
        return $found[1] . '.' . str_pad($found[2] ?? '', 2, '0');
    }

    protected function log(string $text): void
    {
        fwrite(STDERR, "{$this->order->id}: $text\n");
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    private static function random(): float
    {
        return random_int(0, 1 << 20) / (1 << 20);
    }
}
