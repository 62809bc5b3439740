# Completion of parley for PowerShell. Nothing is evaluated: words and answers are in Base64, so that no version and no
# code page of PowerShell changes them, and parley quotes the words that PowerShell inserts.
Register-ArgumentCompleter -Native -CommandName parley -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $utf8 = [System.Text.Encoding]::UTF8
    $words = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object {
        if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.Extent.Text }
    })
    if ($wordToComplete -eq '') { $words += '' }
    $encoded = @($words | Select-Object -Skip 1 | ForEach-Object { [System.Convert]::ToBase64String($utf8.GetBytes($_)) }) -join ','
    $lines = @(& parley __offer powershell "words:$encoded" 2>$null)
    $lines | Select-Object -Skip 1 | ForEach-Object {
        $fields = @($_.Split(',') | ForEach-Object { $utf8.GetString([System.Convert]::FromBase64String($_)) })
        [System.Management.Automation.CompletionResult]::new($fields[0], $fields[1], 'ParameterValue', $fields[2])
    }
    if ($lines.Count -eq 1 -and $lines[0] -match 'nofiles') { '' }
}
